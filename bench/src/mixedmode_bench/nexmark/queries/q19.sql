WITH ranked AS (
  SELECT *, CAST(row_number() OVER (
    PARTITION BY auction ORDER BY price DESC, bidder, channel, url, dateTime, extra
  ) AS INT) AS rank
  FROM bid
)
SELECT auction, rank, bidder, price, channel, url, dateTime, extra FROM ranked WHERE rank <= 10
