-- All bids are read in one epoch, so they are in one window.
SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder
