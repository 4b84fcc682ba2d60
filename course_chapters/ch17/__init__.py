"""All of chapter 17: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
