WITH following AS (
  SELECT bidder, dateTime,
         dateTime > lag(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) + INTERVAL 10 SECOND AS is_new
  FROM bid
), numbered AS (
  SELECT bidder, dateTime, count(*) FILTER (is_new) OVER (PARTITION BY bidder ORDER BY dateTime) AS number
  FROM following
)
SELECT min(dateTime) AS window_start, max(dateTime) + INTERVAL 10 SECOND AS window_end, bidder, count(*) AS bid_count
FROM numbered
GROUP BY bidder, number
