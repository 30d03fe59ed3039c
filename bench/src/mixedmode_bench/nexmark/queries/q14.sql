SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
       CASE WHEN hour(dateTime AT TIME ZONE 'UTC') BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour(dateTime AT TIME ZONE 'UTC') <= 6 OR hour(dateTime AT TIME ZONE 'UTC') >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS bidTimeType,
       dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1_000_000 AND 0.908 * price < 50_000_000
