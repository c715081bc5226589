/* Timeline: what is drawn above the slices: selection, span, marks, links, pointer. */
(function () {
  "use strict";
  const nx = (window.nxTimeline = window.nxTimeline || {});
  const SMALL = "600 10px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'DejaVu Sans', sans-serif";

  /** Where an event is in the overlay, css px: on the first row of its lane while its own is folded away;
      null while the lane is not shown. */
  function box(app, event) {
    const { meta, trackRow } = app.view;
    let row = trackRow.get(event.track);
    if (!row) {
      const lane = meta.lanes[app.view.laneOf(event.track)];
      row = lane && trackRow.get(lane.first);
    }
    if (!row) return null;
    const top = app.geometry.axis + (row.head ? row.y : app.geometry.head + row.y - app.view.scroll);
    const limit = row.head ? 0 : app.geometry.axis + app.geometry.head;
    const x0 = app.view.px(event.start);
    const x1 = Math.max(app.view.px(event.end), x0 + 2);
    return { x0, x1, y: top, h: nx.geometry.BAR, visible: top + nx.geometry.BAR > limit && top < app.geometry.height, limit };
  }

  function flag(ctx, app, x, text, colour) {
    ctx.font = SMALL;
    const width = ctx.measureText(text).width + 10;
    const at = Math.max(0, Math.min(x - width / 2, app.view.width - width));
    ctx.fillStyle = nx.css(app.palette.surface);
    ctx.strokeStyle = colour;
    ctx.beginPath();
    ctx.roundRect(at + 0.5, 1.5, width - 1, 16, 4);
    ctx.fill();
    ctx.stroke();
    ctx.fillStyle = colour;
    ctx.textBaseline = "middle";
    ctx.fillText(text, at + 5, 10);
  }

  function band(ctx, app, t0, t1, colour, text) {
    const x0 = app.view.px(t0);
    const x1 = app.view.px(t1);
    if (x1 < 0 || x0 > app.view.width) return;
    ctx.fillStyle = colour;
    ctx.globalAlpha = 0.1;
    ctx.fillRect(x0, app.geometry.axis, x1 - x0, app.geometry.height);
    ctx.globalAlpha = 0.9;
    ctx.fillRect(Math.round(x0), app.geometry.axis, 1, app.geometry.height);
    ctx.fillRect(Math.round(x1) - 1, app.geometry.axis, 1, app.geometry.height);
    ctx.globalAlpha = 1;
    flag(ctx, app, (Math.max(0, x0) + Math.min(app.view.width, x1)) / 2, text, colour);
  }

  function arrow(ctx, from, to, colour) {
    const right = to.x0 >= from.x0;
    // From its end, or before what it leads to where that begins earlier.
    const x0 = right ? Math.min(from.x1, Math.max(from.x0, to.x0 - 14)) : from.x0;
    const x1 = right ? to.x0 : to.x1;
    const y0 = from.y + from.h / 2;
    const y1 = to.y + to.h / 2;
    const bend = Math.max(14, Math.abs(x1 - x0) * 0.35) * (right ? 1 : -1);
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(x0, y0);
    ctx.bezierCurveTo(x0 + bend, y0 + 24, x1 - bend, y1 + 24, x1, y1);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    ctx.lineTo(x1 - (right ? 7 : -7), y1 - 1);
    ctx.lineTo(x1 - (right ? 4 : -4), y1 + 6);
    ctx.fill();
    ctx.lineWidth = 1;
  }

  function outline(ctx, at, app, colour) {
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, at.limit, app.view.width, app.geometry.height);
    ctx.clip();
    ctx.strokeStyle = nx.css(app.palette.surface);
    ctx.lineWidth = 4;
    ctx.strokeRect(at.x0, at.y, at.x1 - at.x0, at.h);
    ctx.strokeStyle = colour;
    ctx.lineWidth = 2;
    ctx.strokeRect(at.x0, at.y, at.x1 - at.x0, at.h);
    ctx.restore();
  }

  nx.drawOverlay = function (app, dpr) {
    const { view, palette, geometry } = app;
    // An empty layer as large as the picture costs time in each frame of a drag.
    const empty = !app.shade && !app.marks.length && !app.span && !app.selected && app.pointerAt === null;
    app.overlay.hidden = empty;
    if (empty) return;
    const ctx = nx.fitCanvas(app.overlay, view.width, geometry.height, dpr);
    ctx.setTransform(dpr, 0, 0, dpr, 0, 0);
    ctx.clearRect(0, 0, view.width, geometry.height);
    const accent = nx.css(palette.accent);
    nx.drawShade(ctx, app.shade, (t) => view.px(t), view.width, geometry.axis, geometry.height, palette);
    app.marks.forEach(([t0, t1], i) => band(ctx, app, t0, t1, nx.css(palette.muted), `mark ${i + 1}: ${nx.duration(t1 - t0)}`));
    if (app.span) band(ctx, app, app.span[0], app.span[1], accent, nx.duration(app.span[1] - app.span[0]));
    if (app.selected) {
      const at = box(app, app.selected);
      if (at && at.visible) {
        if (app.details && app.details.row === app.selected.row) {
          for (const link of app.details.links) {
            const other = box(app, link);
            if (!other) continue;
            // To a row that is scrolled out of sight the arrow is dashed, and ends at the edge.
            ctx.setLineDash(other.visible ? [] : [5, 4]);
            ctx.globalAlpha = 0.8;
            arrow(ctx, at, other.visible ? other : { ...other, y: other.y < at.y ? other.limit - other.h / 2 : geometry.height - 1.5 * other.h }, accent);
            ctx.globalAlpha = 1;
            ctx.setLineDash([]);
          }
        }
        outline(ctx, at, app, accent);
      }
    }
    if (app.pointerAt !== null) {
      ctx.fillStyle = nx.css(palette.muted);
      ctx.globalAlpha = 0.45;
      ctx.fillRect(Math.round(app.pointerAt), geometry.axis, 1, geometry.height);
      ctx.globalAlpha = 1;
    }
  };
})();
