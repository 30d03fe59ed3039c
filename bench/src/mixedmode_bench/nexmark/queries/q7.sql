WITH highest AS (
  SELECT to_timestamp(epoch_us(dateTime) // 10_000_000 * 10 + 10) AS window_end, max(price) AS price
  FROM bid
  GROUP BY window_end
)
SELECT b.auction, b.bidder, b.price, b.dateTime, b.extra
FROM bid b JOIN highest h ON b.price = h.price AND b.dateTime BETWEEN h.window_end - INTERVAL 10 SECOND AND h.window_end
