"""All of chapter 00: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
