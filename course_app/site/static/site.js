"use strict";
// Moves the pictures of a page: a widget's frames are loaded when a reader first touches one of its dials.

(() => {
  const loading = new Map(); // name of a widget -> a promise of its frames
  const arrived = new Map(); // name of a widget -> what to call with its frames

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  window.courseFrames = async (name, text) => arrived.get(name)?.(await unpacked(text));

  // A script tag and not fetch: pages that are opened from a folder may not fetch.
  function framesOf(name) {
    if (!loading.has(name)) {
      loading.set(name, new Promise((resolve, reject) => {
        arrived.set(name, frames => {
          frames.settings = Object.keys(frames.keys).map(key => key.split(",").map(Number));
          resolve(frames);
        });
        const script = document.createElement("script");
        script.src = new URL(`frames/${name}.js`, here).href;
        script.onerror = () => { loading.delete(name); reject(new Error(`${name} did not load`)); };
        document.head.append(script);
      }));
    }
    return loading.get(name);
  }
  const here = document.currentScript.src;

  class Widget {
    constructor(element) {
      this.element = element;
      this.name = element.dataset.frames;
      this.picture = element.querySelector(".course-picture");
      this.said = element.querySelector(".course-said");
      this.form = element.querySelector(".course-dials");
      this.dials = [...this.form.querySelectorAll("[data-dial]")];
      this.setting = this.dials.map(dial => Number(dial.dataset.start));
      this.drawn = 0; // number of the newest request, so that an older one cannot overwrite it
      this.dials.forEach((dial, place) => {
        const event = dial.dataset.kind === "bit" ? "click" : "input";
        dial.addEventListener(event, () => this.move(place, this.read(dial)));
      });
      for (const button of this.form.querySelectorAll("[data-plays]")) {
        button.addEventListener("click", () => this.play(button));
      }
      this.form.addEventListener("submit", event => event.preventDefault());
      this.form.hidden = this.dials.length === 0;
    }

    read(dial) {
      if (dial.dataset.kind === "toggle") return Number(dial.checked);
      if (dial.dataset.kind === "bit") return 1 - Number(dial.textContent);
      return Number(dial.value);
    }

    show(dial, value) {
      if (dial.dataset.kind === "toggle") dial.checked = Boolean(value);
      else if (dial.dataset.kind === "bit") {
        dial.textContent = String(value);
        dial.setAttribute("aria-pressed", String(Boolean(value)));
      } else dial.value = String(value);
      if (dial.dataset.texts) {
        const text = JSON.parse(dial.dataset.texts)[value];
        dial.setAttribute("aria-valuetext", text);
        dial.parentElement.querySelector("output").textContent = text;
      }
    }

    // The drawn setting with this dial at this value that differs from the wanted one in the fewest dials.
    nearest(frames, wanted, moved) {
      let best = null, least = Infinity;
      for (const setting of frames.settings) {
        let distance = setting[moved] === wanted[moved] ? 0 : 1000 + Math.abs(setting[moved] - wanted[moved]);
        setting.forEach((value, place) => {
          if (value === wanted[place]) return;
          const film = this.dials[place].dataset.kind === "play" && value < wanted[place];
          distance += film ? 0.1 + 0.001 * (wanted[place] - value) : 10; // a shorter film ends earlier
        });
        if (distance < least) [best, least] = [setting, distance];
      }
      return best;
    }

    async move(place, value) {
      const request = ++this.drawn;
      this.setting[place] = value;
      this.show(this.dials[place], value);
      let frames;
      try {
        frames = await framesOf(this.name);
      } catch {
        this.said.textContent = "The pictures did not load. Try again.";
        return;
      }
      if (request !== this.drawn) return;
      const wanted = [...this.setting], found = this.nearest(frames, wanted, place);
      const reset = found.flatMap((value, other) =>
        other !== place && value !== wanted[other] && this.dials[other].dataset.kind !== "play" ? [other] : []);
      this.setting = [...found];
      this.dials.forEach((dial, other) => {
        this.show(dial, found[other]);
        if (dial.type === "range") dial.max = String(this.last(frames, found, other));
      });
      const shown = frames.pictures[frames.keys[found.join(",")]];
      const off = new Set(shown.off ?? []);
      this.dials.forEach((dial, other) => { dial.disabled = off.has(other); });
      this.draw(shown, shown.lines.map(line => frames.lines[line]).join("\n"));
      this.said.textContent = reset.length === 0 ? "" :
        `This page has no picture of that combination, so ${reset.map(other => this.label(other)).join(" and ")} moved back. ` +
        "Run the chapter to combine them.";
    }

    label(place) {
      const dial = this.dials[place];
      return `“${dial.getAttribute("aria-label") ?? this.form.querySelector(`label[for="${dial.id}"]`).textContent}”`;
    }

    // The last value of a dial up to which every picture exists: some films are shorter at some settings.
    last(frames, setting, place) {
      const texts = JSON.parse(this.dials[place].dataset.texts);
      if (this.dials[place].dataset.kind !== "play") return texts.length - 1;
      let end = 0;
      for (let value = 0; value < texts.length; value++) {
        if ([...setting.slice(0, place), value, ...setting.slice(place + 1)].join(",") in frames.keys) end = value;
      }
      return end;
    }

    draw(shown, text) {
      if (!shown.size) {
        this.picture.innerHTML = text;
        roomy(this.picture);
        return;
      }
      let image = this.picture.querySelector(":scope > img");
      if (!image) {
        this.picture.innerHTML = '<img style="max-width:100%;height:auto;border-radius:6px">';
        image = this.picture.firstElementChild;
      }
      const old = image.src;
      image.width = shown.size[0];
      image.height = shown.size[1];
      image.style.setProperty("--course-width", `${shown.size[0]}px`);
      image.alt = shown.alt;
      image.src = URL.createObjectURL(new Blob([text], {type: "image/svg+xml"}));
      if (old.startsWith("blob:")) URL.revokeObjectURL(old);
    }

    async play(button) {
      const place = Number(button.dataset.plays), dial = this.dials[place];
      if (this.playing) return this.stop(button);
      if (Number(dial.value) >= Number(dial.max)) await this.move(place, 0);
      this.playing = setInterval(async () => {
        const next = Number(dial.value) + 1;
        if (next > Number(dial.max)) return this.stop(button);
        await this.move(place, next);
      }, Number(button.dataset.interval));
      button.textContent = "❚❚";
      button.setAttribute("aria-label", button.getAttribute("aria-label").replace("Play", "Pause"));
      await this.move(place, Number(dial.value)); // the first picture, and the true length of the film
    }

    stop(button) {
      clearInterval(this.playing);
      this.playing = null;
      button.textContent = "▶";
      button.setAttribute("aria-label", button.getAttribute("aria-label").replace("Pause", "Play"));
    }
  }

  // A table with sentences scrolls on a narrow screen, and does not break them after every word; a picture keeps its size.
  function roomy(part) {
    for (const image of part.querySelectorAll("img[width]")) {
      image.style.setProperty("--course-width", `${image.getAttribute("width")}px`);
    }
    for (const cell of part.querySelectorAll("td, th")) {
      const words = cell.textContent.trim(), letters = words.length;
      cell.classList.toggle("course-short", letters < 10 && /^([−$]?\d.*|\S+)$/.test(words)); // a number with its unit, or a word
      cell.classList.toggle("course-phrase", letters > 24);
      cell.classList.toggle("course-long", letters > 60);
      cell.classList.toggle("course-paragraph", letters > 120);
    }
  }

  // What is wider than the screen scrolls, and the keyboard must reach it.
  function reachable() {
    for (const box of document.querySelectorAll("article pre, article .table-wrapper, article .output, article .course-picture, article p:has(> img), article div.math")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else if (box.tabIndex === 0) box.removeAttribute("tabindex");
    }
  }

  // Furo's two drawers open by labels, which the keyboard does not reach.
  function drawers() {
    const names = {__navigation: "Chapters", __toc: "On this page"};
    document.querySelector(".sidebar-drawer")?.setAttribute("aria-label", names.__navigation);
    document.querySelector(".toc-drawer")?.setAttribute("aria-label", names.__toc);
    for (const label of document.querySelectorAll('label[for="__navigation"], label[for="__toc"]')) {
      if (label.classList.contains("overlay")) continue;
      const box = document.getElementById(label.htmlFor);
      label.tabIndex = 0;
      label.setAttribute("role", "button");
      label.setAttribute("aria-label", names[label.htmlFor]);
      const say = () => label.setAttribute("aria-expanded", String(box.checked));
      say();
      box.addEventListener("change", say);
      label.addEventListener("keydown", event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        box.checked = !box.checked;
        box.dispatchEvent(new Event("change"));
      });
    }
    document.addEventListener("keydown", event => {
      if (event.key !== "Escape") return;
      for (const id of Object.keys(names)) {
        const box = document.getElementById(id);
        if (box?.checked) { box.checked = false; box.dispatchEvent(new Event("change")); }
      }
    });
  }

  // Outputs are made for JupyterLab and ask for its theme by this attribute.
  function themed() {
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const say = () => {
      const theme = document.body.dataset.theme;
      document.body.dataset.jpThemeLight = String(theme === "light" || (theme !== "dark" && !dark.matches));
    };
    new MutationObserver(say).observe(document.body, {attributeFilter: ["data-theme"]});
    dark.addEventListener("change", say);
    say();
  }

  // A picture fits a phone's screen; a tap shows it at its own size, around the place that was tapped, and back.
  function enlarging() {
    let said = false;
    for (const image of document.querySelectorAll("article .course-picture img, article .output img, article p > img:only-child")) {
      const box = image.closest(".course-picture, .output, p");
      if (!said && matchMedia("(max-width: 40em)").matches) {
        box.insertAdjacentHTML("afterend", '<p class="course-tap">Tap a picture to enlarge it.</p>');
        said = true;
      }
      box.addEventListener("click", event => {
        if (!matchMedia("(max-width: 40em)").matches || event.target.localName !== "img") return;
        const place = event.target.getBoundingClientRect(), across = (event.clientX - place.left) / place.width;
        box.classList.toggle("course-large");
        box.scrollLeft = across * event.target.clientWidth - box.clientWidth / 2;
        reachable();
      });
    }
  }

  // The search of Sphinx wants every word on a page; this one takes a question in plain words. A rare word counts more
  // than a common one, a word of a title more than one of the text, and headings are found too.
  function plainSearch() {
    if (typeof Search === "undefined") return;
    if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false; // it would fetch the pages
    const shown = Search.htmlToText; // without the TeX that a formula carries
    Search.htmlToText = (text, anchor) => shown(text.replace(/<annotation[^]*?<\/annotation>/g, ""), anchor);
    const parse = Search._parseQuery;
    Search._parseQuery = query => {
      const parsed = parse(query);
      localStorage.removeItem("sphinx_highlight_terms"); // marks on the next page would break its formulas
      return parsed;
    };
    Search.performTermsSearch = (words, excluded) => {
      const {terms, titleterms, titles, docnames, filenames, alltitles} = Search._index, all = docnames.length;
      const listed = (table, word) => Object.hasOwn(table, word) ? [table[word]].flat() : [];
      const weights = new Map([...words].map(word => {
        const pages = new Set([...listed(terms, word), ...listed(titleterms, word)]).size;
        return [word, pages === 0 ? 0 : Math.log(1 + all / pages)];
      }));
      const most = [...weights.values()].reduce((sum, weight) => sum + weight, 0), stemmer = new Stemmer();
      const results = [];
      docnames.forEach((name, page) => {
        if ([...excluded].some(word => listed(terms, word).includes(page))) return;
        let found = 0, score = 0;
        for (const [word, weight] of weights) {
          if (!listed(terms, word).includes(page) && !listed(titleterms, word).includes(page)) continue;
          found += weight;
          score += weight * (listed(titleterms, word).includes(page) ? 2 : 1);
        }
        if (found > most / 2) results.push([name, titles[page], "", null, 10 * score / most, filenames[page], SearchResultKind.text]);
      });
      for (const [title, places] of Object.entries(alltitles)) {
        const said = new Set(splitQuery(title.toLowerCase()).map(word => stemmer.stemWord(word)));
        const found = [...weights].reduce((sum, [word, weight]) => sum + (said.has(word) ? weight : 0), 0);
        for (const [page, id] of found > most / 2 ? places : []) {
          if (id) results.push([docnames[page], `${titles[page]} > ${title}`, `#${id}`, null, 30 * found / most, filenames[page], SearchResultKind.title]);
        }
      }
      return results;
    };
  }

  document.addEventListener("DOMContentLoaded", () => {
    themed();
    plainSearch();
    enlarging();
    document.querySelectorAll(".course-frames").forEach(element => new Widget(element));
    drawers();
    roomy(document);
    reachable();
    window.addEventListener("resize", reachable);
    document.addEventListener("toggle", reachable, true);
  });
})();
