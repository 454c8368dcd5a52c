// Line charts as SVG, drawn anew from the data at each update.
import { fill, h } from './dom.js';

const H = 190, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 24;

function ticks(low, high, wanted) {
  const span = high - low || 1;
  const raw = span / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) out.push(v);
  return out;
}

const clock = (t, span) => new Date(t * 1000).toLocaleTimeString('en-GB', span < 600 ? undefined : { hour: '2-digit', minute: '2-digit' });

// Draws anew when the room changes, so that text keeps its size.
const room = new ResizeObserver((entries) => { for (const entry of entries) entry.target.draw(entry.contentRect.width); });

// lines: [{label, points: [[time, value or null]]}]; options: {format, low, high, label, area, along}; `along`: what to write
// below instead of times, for points of another kind.
export function lineChart(lines, { format, low = 0, high = null, label, area = false, along = clock }) {
  const figure = h('figure');
  figure.draw = (width) => { if (width > 0) fill(figure, draw(Math.round(width), lines, { format, low, high, label, area, along })); };
  room.observe(figure);
  return figure;
}

function draw(W, lines, { format, low, high, label, area, along }) {
  const all = lines.flatMap((line) => line.points).filter((p) => p[1] !== null);
  if (all.length < 2) return [h('p', { class: 'quietly' }, 'Collecting points; a curve begins with the second one.')];
  const t0 = Math.min(...all.map((p) => p[0])), t1 = Math.max(...all.map((p) => p[0]));
  let bottom = low, top = high;
  if (bottom === null) bottom = Math.min(...all.map((p) => p[1]));
  if (top === null) top = Math.max(...all.map((p) => p[1]), bottom + 1e-9);
  if (top <= bottom) top = bottom + (Math.abs(bottom) || 1) * 0.1;
  if (high === null) top += (top - bottom) * 0.08;
  const x = (t) => LEFT + ((t - t0) / (t1 - t0 || 1)) * (W - LEFT - RIGHT);
  const y = (v) => H - BOTTOM - ((v - bottom) / (top - bottom)) * (H - TOP - BOTTOM);
  const chart = h('svg', { class: 'chart', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': describe(lines, format, label) });
  for (const v of ticks(bottom, top, 4)) {
    chart.append(h('line', { class: v === bottom ? 'base' : 'rule', x1: LEFT, x2: W - RIGHT, y1: y(v), y2: y(v) }),
      h('text', { x: LEFT - 8, y: y(v) + 4, 'text-anchor': 'end' }, format(v)));
  }
  for (const [t, anchor] of [[t0, 'start'], [(t0 + t1) / 2, 'middle'], [t1, 'end']]) {
    chart.append(h('text', { x: x(t), y: H - 6, 'text-anchor': anchor }, along(t, t1 - t0)));
  }
  lines.forEach((line, i) => {
    let path = '', pen = false, last = null, first = null;
    for (const [t, v] of line.points) {
      if (v === null) { pen = false; continue; }
      path += `${pen ? 'L' : 'M'}${x(t).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = true;
      first ??= t;
      last = [t, v];
    }
    if (!last) return;
    if (area && i === 0) chart.append(h('path', { class: 'area', d: `${path}L${x(last[0])} ${y(bottom)}L${x(first)} ${y(bottom)}Z` }));
    chart.append(h('path', { class: `line l${i}`, d: path }));
  });
  return [chart, lines.length > 1 && h('ul', { class: 'legend' },
    lines.map((line, i) => h('li', {}, h('span', { class: `key ${['g0', 'g2'][i]}` }), line.label)))];
}

function describe(lines, format, label) {
  const ends = lines.map((line) => {
    const known = line.points.filter((p) => p[1] !== null);
    return known.length ? `${line.label} ${format(known[known.length - 1][1])}` : `${line.label} unknown`;
  });
  return `${label}; now ${ends.join(', ')}`;
}
