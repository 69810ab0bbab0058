"""What several protocols have in common: how messages are framed, held in order and checked."""
