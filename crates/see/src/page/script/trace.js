'use strict';
// Lets every figure of the page follow one token. All that is shown stands in the page already; texts of tokens become
// text nodes and nothing else.
const data = JSON.parse(document.getElementById('data').textContent);
const strip = document.getElementById('strip'), line = document.getElementById('at');
const links = [...document.querySelectorAll('nav a')], sections = [...document.querySelectorAll('section')];
const word = id => data.words[id] ?? `#${id}`;
let at = -1;

const make = (tag, text, cls) => {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (cls) e.className = cls;
  return e;
};
const percent = p => p >= 0.1 ? `${Math.round(1000 * p) / 10}%` : `${(100 * p).toPrecision(2)}%`;

function stage(s, all, chosen) {
  const column = make('section');
  column.className = 'stage';
  column.append(make('h3', { model: 'the model', edits: 'bias, mask, penalties' }[s.n] ?? s.n));
  column.append(make('p', `${s.l.toLocaleString('en')} left · ${s.b.toFixed(2)} bits`));
  for (const id of all) {
    const k = s.i.indexOf(id), row = make('div');
    row.className = [id === chosen ? 'won' : '', k < 0 ? 'out' : ''].join(' ');
    const name = make('bdi', word(id));
    name.title = `${word(id)}, number ${id}`;
    const box = make('span'), bar = make('u');
    bar.style.width = k < 0 ? '0' : `${100 * s.p[k]}%`;
    box.append(bar);
    row.append(name, box, make('em', k < 0 ? '' : percent(s.p[k])));
    column.append(row);
  }
  return column;
}

function stages(place) {
  const box = document.querySelector('[data-follow=stages]');
  if (!box) return;
  const c = data.choices[place];
  if (!c || !c.s.length) {
    box.replaceChildren(make('p', place < data.prompt ? 'This token was given: choose one of the answer.'
      : c && c.f ? 'The grammar left no other token: nothing was sampled.' : 'Nothing was recorded of this choice.'));
    return;
  }
  const chosen = data.ids[place], all = [...c.s[0].i];
  if (!all.includes(chosen)) all.push(chosen);
  const grid = make('div');
  grid.className = 'stages';
  grid.append(...c.s.map(s => stage(s, all, chosen)));
  box.replaceChildren(grid);
}

// A cell of a word with how likely or how large it is.
function cell(word, number, won) {
  const e = make('td', undefined, won ? 'won' : '');
  const name = make('bdi', word), bar = make('u');
  bar.style.width = `${Math.max(2, 100 * number)}%`;
  e.title = `${word}, ${percent(number)}`;
  e.append(name, make('em', percent(number)), bar);
  return e;
}

function filled(name, heads, rows, nothing) {
  const box = document.querySelector(`[data-follow=${name}]`);
  if (!box) return;
  if (!rows.length) return box.replaceChildren(make('p', nothing));
  const scroll = make('div', undefined, 'scroll'), table = make('table', undefined, 'words');
  if (heads.length) {
    const head = table.createTHead().insertRow();
    for (const h of heads) {
      const th = make('th');
      th.append(make('bdi', h));
      head.append(th);
    }
  }
  const body = table.createTBody();
  for (const [name, ...cells] of rows) {
    const row = body.insertRow();
    row.append(make('th', name), ...cells);
  }
  scroll.append(table);
  box.replaceChildren(scroll);
}

const layerName = l => l ? `after ${l} layers` : 'embedding';

// What stands at a place was said by the row before it.
function lens(place) {
  const around = [];
  for (let p = place - 3; p <= place + 3; p++) if (data.lens[p - 1]) around.push(p);
  const rows = [];
  for (let l = around.length ? data.lens[around[0] - 1].length - 1 : -1; l >= 0; l--) {
    rows.push([layerName(l), ...around.map(p => cell(word(data.lens[p - 1][l][0]), data.lens[p - 1][l][1], data.lens[p - 1][l][0] === data.ids[p]))]);
  }
  filled('lens', ['what came', ...around.map(p => word(data.ids[p]))], rows, 'Nothing was looked up here.');
}

function insides(place) {
  lens(place);
  const layers = all => Object.entries(all[place] ?? {});
  filled('experts', [], layers(data.experts).map(([l, e]) => [`layer ${l}`, ...e.map(([n, w]) => cell(`expert ${n}`, w))]), 'No expert was seen for this token.');
  filled('heads', [], layers(data.heads).map(([l, e]) => [`layer ${l}`, ...e.map(([p, w]) => cell(p === place ? 'itself' : p === 0 ? `${word(data.ids[0])} (first)` : word(data.ids[p]), w))]), 'No head was seen for this token.');
}

function tell(place) {
  const step = data.steps.find(s => s[0] <= place && place < s[1]), c = data.choices[place];
  const parts = [`token ${place}`, `“${word(data.ids[place])}”`, `number ${data.ids[place]}`];
  parts.push(place < data.prompt ? 'given' : 'chosen');
  if (step) parts.push(`in a step of ${step[2]}`);
  if (c && c.lp !== null && c.lp !== undefined) parts.push(`${percent(Math.exp(c.lp))} by the model`, `its choice number ${c.r + 1}`);
  line.textContent = parts.join(' · ');
}

function choose(place, scroll) {
  place = Math.max(0, Math.min(data.ids.length - 1, place));
  if (place === at || !data.ids.length) return;
  for (const e of document.querySelectorAll('[data-t].on')) e.classList.remove('on');
  const old = strip.children[at], now = strip.children[place];
  if (old) old.removeAttribute('aria-selected');
  now.setAttribute('aria-selected', 'true');
  now.id = 'chosen';
  if (old) old.removeAttribute('id');
  strip.setAttribute('aria-activedescendant', 'chosen');
  // A step with a prompt has no mark of its own for each of its tokens: the last mark before stands for it.
  for (const figure of document.querySelectorAll('figure>svg')) {
    let best = null, near = -1;
    for (const e of figure.querySelectorAll('[data-t]')) {
      const t = +e.dataset.t;
      if (t === place) e.classList.add('on');
      else if (t < place && t > near && e.closest('#steps')) { near = t; best = e; }
    }
    if (best && !figure.querySelector('.on')) best.classList.add('on');
  }
  at = place;
  stages(place);
  insides(place);
  tell(place);
  if (scroll) now.scrollIntoView({ block: 'nearest' });
}

const here = () => {
  let k = 0;
  sections.forEach((s, i) => { if (s.parentElement.id === 'main' && s.getBoundingClientRect().top < innerHeight * 0.4) k = i; });
  links.forEach((a, i) => a.classList.toggle('on', i === k));
  return k;
};

function find() {
  const text = prompt('find a token');
  if (!text) return;
  const shown = i => word(data.ids[i]).replaceAll('·', ' ');
  for (let i = 1; i <= data.ids.length; i++) {
    const place = (at + i) % data.ids.length;
    if (shown(place).includes(text)) return choose(place, true);
  }
}

function large(figure) {
  const dialog = document.querySelector('dialog');
  dialog.querySelector('div').replaceChildren(figure.querySelector('svg[role=img]').cloneNode(true));
  dialog.showModal();
}

// A figure as pixels, twice as fine as it is described, in the colours that the page has now.
async function pixels(figure) {
  const svg = figure.querySelector('svg[role=img]').cloneNode(true), [, , w, h] = svg.getAttribute('viewBox').split(' ').map(Number);
  const ground = getComputedStyle(figure).backgroundColor, canvas = document.createElement('canvas'), image = new Image();
  const light = ground.match(/[\d.]+/g).slice(0, 3).reduce((sum, part) => sum + +part, 0) > 384;
  svg.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
  const edge = 32;
  svg.setAttribute('width', 2 * w);
  svg.setAttribute('height', 2 * h);
  [canvas.width, canvas.height] = [2 * (w + edge), 2 * (h + edge)];
  const style = document.createElementNS('http://www.w3.org/2000/svg', 'style');
  style.textContent = document.querySelector('style').textContent;
  svg.prepend(style);
  svg.style.colorScheme = light ? 'light' : 'dark';
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const draw = canvas.getContext('2d');
  draw.fillStyle = ground;
  draw.fillRect(0, 0, canvas.width, canvas.height);
  draw.drawImage(image, edge, edge);
  return new Promise(done => canvas.toBlob(done, 'image/png'));
}

async function save(figure) {
  const link = make('a');
  link.href = URL.createObjectURL(await pixels(figure));
  link.download = `${figure.closest('section').id}.png`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

for (const caption of document.querySelectorAll('figcaption')) {
  const button = make('button', 'save as PNG');
  button.type = 'button';
  button.addEventListener('click', () => save(caption.closest('figure')));
  caption.append(button);
}

document.addEventListener('click', e => {
  const mark = e.target.closest('[data-t]');
  if (mark) choose(+mark.dataset.t);
});
addEventListener('scroll', here, { passive: true });
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('dialog')) return;
  const root = document.documentElement, dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const go = {
    ArrowRight: () => choose(at + 1, true),
    ArrowLeft: () => choose(at - 1, true),
    j: () => links[Math.min(here() + 1, links.length - 1)].click(),
    k: () => links[Math.max(here() - 1, 0)].click(),
    t: () => { root.dataset.theme = (root.dataset.theme ?? (dark ? 'dark' : 'light')) === 'dark' ? 'light' : 'dark'; },
    '/': find,
    Enter: () => e.target.matches('figure') && large(e.target),
  }[e.key];
  if (go && !(e.key === 'Enter' && !e.target.matches('figure'))) { e.preventDefault(); go(); }
});
choose(Math.min(data.prompt, data.ids.length - 1));
here();
