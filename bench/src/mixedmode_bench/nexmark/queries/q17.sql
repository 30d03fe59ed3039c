SELECT auction,
       strftime(dateTime AT TIME ZONE 'UTC', '%Y-%m-%d') AS day,
       count(*) AS total_bids,
       count(*) FILTER (price < 10_000) AS rank1_bids,
       count(*) FILTER (price >= 10_000 AND price < 1_000_000) AS rank2_bids,
       count(*) FILTER (price >= 1_000_000) AS rank3_bids,
       min(price) AS min_price,
       max(price) AS max_price,
       avg(price) AS avg_price,
       CAST(sum(price) AS BIGINT) AS sum_price
FROM bid
GROUP BY auction, day
