// Draw the figures of executed notebooks, with the one bundle of plotly that the site holds.
(() => {
  const figures = [...document.querySelectorAll("script[data-plot]")];
  if (!figures.length) return;
  const here = document.querySelector('script[src$="assets/plots.js"]').src;
  const bundle = document.createElement("script");
  bundle.src = here.replace("plots.js", "plotly-cartesian.min.js");
  bundle.onload = () => figures.forEach(draw);
  document.head.append(bundle);

  function draw(script) {
    const figure = JSON.parse(script.textContent);
    const style = getComputedStyle(document.querySelector(".md-content"));
    const layout = {
      ...figure.layout,
      template: undefined,
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { ...figure.layout.font, color: style.color },
      autosize: true,
      width: undefined,
    };
    const place = document.getElementById(script.dataset.plot);
    window.Plotly.newPlot(place, figure.data, layout, { responsive: true, displaylogo: false });
  }
})();
