"""Cards on the controller: proposals judged, offers signed, cards stored."""
