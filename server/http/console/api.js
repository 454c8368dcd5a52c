// Calls of /api/v1. The header tells the server that a page of its own asks (docs/operate/security.md).

export class ApiError extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

// The session where the server asks for keys: {keys, name, csrf_token}. Its cookie is out of reach of scripts.
let session = null;

async function call(path, options = {}) {
  let response;
  const token = session?.csrf_token ? { 'X-Lightcone-Csrf': session.csrf_token } : {};
  try {
    response = await fetch(`/api/v1/${path}`, { ...options, headers: { 'X-Lightcone-Console': '1', ...token, ...options.headers } });
  } catch {
    throw new ApiError('UNAVAILABLE', 'The server does not answer.');
  }
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    if (response.status === 401) session = null;
    throw new ApiError(body.error?.code ?? 'INTERNAL', body.error?.message ?? `HTTP ${response.status}`);
  }
  return response;
}

const path = (...parts) => parts.map(encodeURIComponent).join('/');
export const read = async (...parts) => (await call(path(...parts))).json();

export const readSession = async () => { session = await read('session'); return session; };
export async function logIn(key) {
  session = await (await call('session', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ key }) })).json();
  return session;
}
export async function logOut() {
  await call('session', { method: 'DELETE' });
  session = null;
}

export async function act(collection, action, body) {
  const id = newRequestId();
  return (await call(path('collections', collection, action), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Request-Id': id },
    body: JSON.stringify({ request_id: id, ...body }),
  })).json();
}

export async function search(collection, parameters, body, type = 'application/json') {
  const query = new URLSearchParams(parameters);
  return (await call(`${path('collections', collection, 'search')}?${query}`, { method: 'POST', headers: { 'Content-Type': type }, body })).json();
}

// A picture as a URL of this page: an <img> could not send the header.
export async function picture(collection, id) {
  const response = await call(`${path('collections', collection, 'input')}?${new URLSearchParams(id)}`);
  return URL.createObjectURL(await response.blob());
}

function newRequestId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
}
