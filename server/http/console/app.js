// The shell: which page, how often it is refreshed, theme and state of the connection.
import { read } from './api.js';
import { h, link, empty } from './dom.js';
import * as overview from './overview.js';
import * as collection from './collection.js';
import * as generation from './generation.js';
import * as search from './search.js';
import * as jobs from './jobs.js';
import * as audit from './audit.js';
import { hasSession, showLogin } from './login.js';

const main = document.getElementById('main');
const state = document.getElementById('state');
let current = null;  // {page, root, timer}

function route() {
  const parts = location.hash.replace(/^#\/?/, '').split('/').filter((p) => p).map(decodeURIComponent);
  if (parts.length === 0) return { page: overview, args: [] };
  if (parts[0] === 'collections' && parts[1]) {
    if (parts.length === 2) return { page: collection, args: [parts[1]] };
    if (parts[2] === 'search') return { page: search, args: [parts[1]] };
    if (parts[2] === 'jobs') return { page: jobs, args: [parts[1]] };
    if (parts[2] === 'audit') return { page: audit, args: [parts[1]] };
    if (parts[2] === 'generations' && parts[3]) return { page: generation, args: [parts[1], parts[3]] };
  }
  return null;
}

function showConnection(kind, text) {
  state.replaceChildren(h('span', { class: `dot ${kind}` }), h('span', {}, text));
}

async function refresh() {
  const showing = current;
  if (!showing) return;
  clearTimeout(showing.timer);
  try {
    await showing.page.update(showing.root, ...showing.args);
    if (showing !== current) return;
    showConnection('good', 'Live');
    showing.failed = false;
  } catch (problem) {
    if (showing !== current) return;
    if (problem.code === 'UNAUTHENTICATED') return askForKey();
    showConnection('bad', problem.code === 'UNAVAILABLE' ? 'Not reachable' : 'Problem');
    if (!showing.root.hasChildNodes() || problem.code === 'NOT_FOUND') {
      showing.root.replaceChildren(empty(problem.code === 'NOT_FOUND' ? 'Not found' : 'Nothing to show', problem.message, null, 'h1'));
    }
  }
  if (showing.page.every && showing === current) showing.timer = setTimeout(refresh, document.hidden ? 15000 : showing.page.every);
}

function askForKey() {
  clearTimeout(current?.timer);
  current = null;
  showConnection('', 'Not logged in');
  showLogin(main, begin);
}

async function begin() {
  if (await hasSession(document.getElementById('session'))) await show();
  else askForKey();
}

async function show() {
  const found = route();
  clearTimeout(current?.timer);
  current?.page.leave?.();
  document.getElementById('dialog').close();
  const root = h('div');
  main.replaceChildren(root);
  document.getElementById('nav').replaceChildren(
    h('a', { href: '#/', 'aria-current': found?.page === overview ? 'page' : null }, 'Overview'));
  if (!found) {
    current = null;
    root.append(empty('Not found', 'There is no such page.', null, 'h1'), h('p', { class: 'empty' }, h('a', { href: '#/' }, 'To the overview')));
    return;
  }
  current = { page: found.page, root, args: found.args };
  document.title = [...found.args.slice(0, 1), 'Lightcone'].join(' · ');
  await refresh();
  main.focus({ preventScroll: true });
}

const themes = ['auto', 'light', 'dark'];
const themeButton = document.getElementById('theme');
function applyTheme(theme) {
  if (theme === 'auto') document.documentElement.removeAttribute('data-theme');
  else document.documentElement.setAttribute('data-theme', theme);
  const signs = { auto: '◐', light: '☀', dark: '☾' };
  themeButton.textContent = signs[theme];
  themeButton.setAttribute('aria-label', `Theme: ${theme}. Change it`);
  themeButton.title = `Theme: ${theme}`;
}
let theme = themes.includes(localStorage.getItem('theme')) ? localStorage.getItem('theme') : 'auto';
applyTheme(theme);
themeButton.addEventListener('click', () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  localStorage.setItem('theme', theme);
  applyTheme(theme);
});

window.addEventListener('hashchange', show);
window.addEventListener('lightcone:refresh', refresh);
document.addEventListener('visibilitychange', () => { if (!document.hidden) refresh(); });
showConnection('', 'Connecting');
begin();
