// The page that takes a key, where the server asks for keys, and the button that ends the session.
import { logIn, logOut, readSession } from './api.js';
import { h, fill } from './dom.js';

// Asks for a key until the server takes one. `done` is called then.
export function showLogin(root, done) {
  const key = h('input', { type: 'password', id: 'key', autocomplete: 'current-password', required: true });
  const problem = h('p', { role: 'alert' });
  const form = h('form', {
    class: 'card', onsubmit: async (event) => {
      event.preventDefault();
      fill(problem);
      try {
        await logIn(key.value);
        key.value = '';
        done();
      } catch (error) {
        fill(problem, error.message);
      }
    },
  }, h('h1', {}, 'Log in'), h('p', {}, 'This server asks for a key. The console shows and does what the key allows.'),
  h('label', { for: 'key' }, 'Key'), key, h('button', { type: 'submit', id: 'log-in' }, 'Log in'), problem);
  fill(root, form);
  key.focus();
}

// Whether pages can be read: there are no keys, or there is a session, which `place` then names with its end.
export async function hasSession(place) {
  fill(place);
  try {
    const session = await readSession();
    if (session.keys) {
      fill(place, h('span', {}, session.name), h('button', {
        type: 'button', class: 'quiet', id: 'log-out', onclick: async () => { await logOut(); location.reload(); },
      }, 'Log out'));
    }
    return true;
  } catch (error) {
    return error.code !== 'UNAUTHENTICATED';
  }
}
