/* Timeline: colours by operator, line, module or self time, and their legend. Methods of the component. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const { el } = nx;

  (nx.parts = nx.parts || []).push({
    /** Colour slices by one of nx.COLOURS. */
    async colourBy(by, quiet = false) {
      this.colours.value = by;
      if (by === this.source.colour) return;
      this.source.colour = by;
      this.palette = new nx.Palette(this.root, this.meta.categories, by);
      this.classes = null;
      this.invalidate();
      if (!quiet) this.keepState(false);
      if (by === "kind") return this.drawLegend();
      this.legend.replaceChildren(el("li", {}, "…"));
      try {
        const { classes } = await this.source.ask("colours", { by });
        if (!this.alive() || this.source.colour !== by) return;
        this.classes = classes;
        this.drawClasses();
        this.status.textContent = `coloured by ${nx.COLOURS[by]}`;
      } catch (error) {
        this.trouble(error);
      }
    },

    /** The classes, the costliest first; a click highlights one's events. */
    drawClasses() {
      if (!this.classes) return;
      const { palette, source } = this;
      const by = source.colour;
      this.legend.replaceChildren(...this.classes.map((each) => {
        const name = each.line > 0 ? `${each.text.split("/").pop()}:${each.line}` : by === "op" ? nx.shortName(each.text) : each.text;
        const whole = `${each.line > 0 ? `${each.text}:${each.line}` : each.text} · ${nx.plural(each.events, "event")}, ${nx.duration(each.self)} self time`;
        const swatch = el("span", { class: "tl-swatch", style: `--swatch:${nx.css(palette.rgb[palette.classes + each.class])}` });
        const text = [...name].length > 28 ? "…" + [...name].slice(-27).join("") : name;
        if (each.class >= 10 || by === "cost") return el("li", { title: whole }, swatch, el("bdi", {}, text));
        const filter = each.line > 0 ? { line: `${each.text}:${each.line}` } : { [by]: each.text };
        return el("li", { title: whole }, el("button", { type: "button", class: "tl-class", onclick: () => this.setFilter(filter) }, swatch, el("bdi", {}, text)));
      }));
    },
  });
})();
