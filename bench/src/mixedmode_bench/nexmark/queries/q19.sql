WITH ranked AS (
  SELECT *, row_number() OVER (
    PARTITION BY auction ORDER BY price DESC, bidder, channel, url, dateTime, extra
  )::INT AS rank
  FROM bid
)
SELECT auction, rank, bidder, price, channel, url, dateTime, extra FROM ranked WHERE rank <= 10
