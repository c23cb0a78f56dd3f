"""The port `podfiles`: pods' folders and the files around their containers."""
