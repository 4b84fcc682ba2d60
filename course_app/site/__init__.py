"""The course on the web: `./course site` writes static pages from executed chapters."""
