-- A bid is counted once, in its two seconds; the five windows that it is in are sums of such counts.
WITH panes AS (
  SELECT epoch_us(dateTime) // 2_000_000 AS pane, auction, count(*) AS bids FROM bid GROUP BY ALL
), counts AS (
  SELECT pane - back AS pane, auction, CAST(sum(bids) AS BIGINT) AS num
  FROM panes, (SELECT unnest(range(5)) AS back)
  GROUP BY ALL
), most AS (
  SELECT pane, max(num) AS num FROM counts GROUP BY pane
)
SELECT to_timestamp(pane * 2) AS window_start, to_timestamp(pane * 2 + 10) AS window_end, auction, num
FROM counts JOIN most USING (pane, num)
