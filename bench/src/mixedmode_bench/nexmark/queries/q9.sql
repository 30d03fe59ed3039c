WITH winning AS (
  SELECT a.id AS id, arg_max(struct_pack(b := b, a := a), (b.price, -epoch_us(b.dateTime))) AS best
  FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id
)
SELECT id, best.a.itemName, best.a.description, best.a.initialBid, best.a.reserve, best.a.dateTime, best.a.expires,
       best.a.seller, best.a.category, best.a.extra, best.b.auction, best.b.bidder, best.b.price,
       best.b.dateTime AS bid_dateTime, best.b.extra AS bid_extra
FROM winning
