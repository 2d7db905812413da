// Figures are data; this draws each in the element before it.
for (const holder of document.querySelectorAll("script[type='application/json'].figure")) {
  const figure = JSON.parse(holder.textContent);
  const options = { displaylogo: false, responsive: true, displayModeBar: false };
  Plotly.newPlot(holder.previousElementSibling, figure.data, figure.layout, options);
}
