"""Tables, a module per question. Each takes a run and returns the tables that it has rows for."""
