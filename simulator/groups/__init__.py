"""Consumer groups: members, history, checkers, scenario."""
