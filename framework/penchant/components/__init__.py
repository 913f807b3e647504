"""What plugins declare: components and their options, roles, hooks, trainings."""
