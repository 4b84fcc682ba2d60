"""All of chapter 06: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
