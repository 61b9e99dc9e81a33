"""Views and decisions of stewards: queue, cards, answers, budgets, people and log."""
