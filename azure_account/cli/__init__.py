"""What the command lines of all packages have in common. Needs the extra `cli`; only other command lines import it."""
