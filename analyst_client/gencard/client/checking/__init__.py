"""What the client checks by itself: signatures, key history, log, receipts, replay."""
