"""The demo: a shop's order history, a feed of live orders, and one job file over both."""
