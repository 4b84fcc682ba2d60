"""All of chapter 07: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
