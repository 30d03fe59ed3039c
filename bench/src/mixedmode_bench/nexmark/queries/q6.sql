WITH final AS (
  SELECT a.id, a.seller, a.expires, max(b.price) AS final
  FROM auction a JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id, a.seller, a.expires
),
ranked AS (
  SELECT seller, final, row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS rank
  FROM final
)
SELECT seller, avg(final) AS average FROM ranked WHERE rank <= 10 GROUP BY seller
