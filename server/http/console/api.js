// Calls of /api/v1. The header tells the server that a page of its own asks (docs/operate/security.md).

export class ApiError extends Error {
  constructor(code, message) { super(message); this.code = code; }
}

async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, { ...options, headers: { 'X-Lightcone-Console': '1', ...options.headers } });
  } catch {
    throw new ApiError('UNAVAILABLE', 'The server does not answer.');
  }
  if (!response.ok) {
    const body = await response.json().catch(() => ({}));
    throw new ApiError(body.error?.code ?? 'INTERNAL', body.error?.message ?? `HTTP ${response.status}`);
  }
  return response;
}

const path = (...parts) => parts.map(encodeURIComponent).join('/');
export const read = async (...parts) => (await call(path(...parts))).json();

export const act = async (collection, action, body) =>
  (await call(path('collections', collection, action), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ request_id: newRequestId(), ...body }),
  })).json();

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
