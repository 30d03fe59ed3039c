SELECT auction, bidder, price, dateTime, extra, strftime(dateTime AT TIME ZONE 'UTC', '%Y-%m-%d') AS dt,
       strftime(dateTime AT TIME ZONE 'UTC', '%H:%M') AS hm
FROM bid
