"""All of chapter 05: what its notebook imports (`page`), its tables, pictures and sliders, and its exercises."""
