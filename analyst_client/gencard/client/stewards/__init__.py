"""What stewards see and decide: queue, cards, answers, budgets, people and log."""
