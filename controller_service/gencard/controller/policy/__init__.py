"""What a proposal may ask for: rules, quotas and limits that stewards set."""
