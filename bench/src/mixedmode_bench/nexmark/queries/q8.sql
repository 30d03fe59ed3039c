SELECT p.id, p.name, to_timestamp(p.number * 10) AS starttime
FROM (SELECT DISTINCT id, name, epoch_us(dateTime) // 10_000_000 AS number FROM person) p
JOIN (SELECT DISTINCT seller, epoch_us(dateTime) // 10_000_000 AS number FROM auction) a
  ON p.id = a.seller AND p.number = a.number
