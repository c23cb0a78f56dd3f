"""Pure decisions that several cores share."""
