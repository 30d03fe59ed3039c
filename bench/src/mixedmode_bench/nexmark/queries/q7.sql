WITH best AS (
  SELECT epoch_us(dateTime) // 10_000_000 AS number,
         arg_max(struct_pack(auction, bidder, price, dateTime, extra),
                 price * 10_000_000 + epoch_us(dateTime) % 10_000_000) AS bid
  FROM bid
  GROUP BY number
)
SELECT to_timestamp(number * 10) AS window_start, to_timestamp(number * 10 + 10) AS window_end,
       bid.auction, bid.bidder, bid.price, bid.dateTime, bid.extra
FROM best
