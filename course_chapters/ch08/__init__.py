"""All of chapter 08: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
