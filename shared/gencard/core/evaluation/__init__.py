"""Risk and utility of a release by name, as the controller measures them and a report shows them."""
