"""All of chapter 12: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
