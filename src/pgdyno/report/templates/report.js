// Colour scheme of the charts, zoom buttons, copy buttons.
"use strict";

// Call then() with the bokeh documents of the page once its charts are drawn.
function whenDrawn(then) {
  const ready = () =>
    window.Bokeh && Bokeh.documents.length > 0 &&
    Object.keys(Bokeh.index).length !== 0;
  const look = () => (ready() ? then(Bokeh.documents) : setTimeout(look, 20));
  look();
}

// Bokeh reads the --bk-* custom properties when it paints. Labels that are glyphs need the text
// colour set, and a change of the colour scheme needs a repaint.
function followScheme(documents) {
  const paint = () => {
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    for (const doc of documents) {
      for (const model of doc.get_models_by_name ? doc.get_models_by_name("ink") : doc.all_models) {
        if (model.name === "ink") model.text_color = { value: ink };
      }
    }
    for (const view of Bokeh.index) repaint(view);
  };
  const repaint = (view) => {
    if (view.request_repaint) view.request_repaint();
    for (const child of view.child_views || []) repaint(child);
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  paint();
}

// With a mouse, dragging zooms; on a touch screen it must scroll the page.
function dragZooms(documents) {
  if (matchMedia("(pointer: coarse)").matches) return;
  for (const doc of documents) {
    for (const model of doc.all_models) if (model.type === "BoxZoomTool") model.active = true;
  }
}

function zoomButtons(documents) {
  const range = documents[0].get_model_by_name("time");
  for (const button of document.querySelectorAll("button[data-from]")) {
    button.addEventListener("click", () => {
      range.setv({ start: Number(button.dataset.from), end: Number(button.dataset.to) });
    });
  }
}

function copyButtons() {
  for (const box of document.querySelectorAll(".copyable")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const pre = box.querySelector("pre");
      try {
        await navigator.clipboard.writeText(pre.textContent);
      } catch {
        const all = document.createRange();
        all.selectNodeContents(pre);
        getSelection().removeAllRanges();
        getSelection().addRange(all);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    box.append(button);
  }
}

addEventListener("DOMContentLoaded", () => {
  copyButtons();
  if (document.querySelector(".plot")) {
    whenDrawn((documents) => {
      followScheme(documents);
      dragZooms(documents);
      if (document.querySelector("button[data-from]")) zoomButtons(documents);
      document.documentElement.dataset.drawn = "yes";
    });
  }
});
