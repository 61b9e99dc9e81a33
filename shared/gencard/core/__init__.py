"""The numpy core: statistics, generators and the audit. No network, no disk, no clock."""
