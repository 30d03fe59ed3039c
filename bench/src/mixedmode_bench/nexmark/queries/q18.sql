WITH last AS (
  SELECT auction, bidder, arg_max(struct_pack(price, channel, url, dateTime, extra), dateTime) AS bid
  FROM bid
  GROUP BY auction, bidder
)
SELECT auction, bidder, bid.price, bid.channel, bid.url, bid.dateTime, bid.extra FROM last
