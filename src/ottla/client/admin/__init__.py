"""The admin client, one module per subject."""
