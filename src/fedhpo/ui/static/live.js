// What the server knows, asked for again whenever it says that files have changed.

export async function ask(path, parameters) {
  const reply = await fetch(`api/${path}?${new URLSearchParams(parameters)}`);
  const told = await reply.json().catch(() => ({ error: reply.statusText }));
  if (!reply.ok) throw new Error(told.error ?? reply.statusText);
  return told;
}

export async function command(name, action) {
  const options = { method: "POST", headers: { "X-Fedhpo": "1" } }; // which another site's page cannot send
  const reply = await fetch(`api/control?${new URLSearchParams({ name, action })}`, options);
  const told = await reply.json().catch(async () => ({ error: reply.statusText }));
  if (!reply.ok) throw new Error(told.error ?? reply.statusText);
  return told.said;
}

// Calls `refresh` at once and after every change, never twice at a time, and so rarely that it takes at most
// a twentieth of one core at the server. It returns how many milliseconds it took there, and in how many more
// is there (0 if nothing is). Stops with the function returned.
export function follow(names, refresh, state) {
  let ended = false, busy = false, again = false, source = null, timer = 0;

  async function turn() {
    if (ended || document.hidden) return;
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    again = false;
    let took = 0, more = 0;
    try {
      ({ took = 0, more = 0 } = await refresh());
      if (!ended) state("live");
    } catch (error) {
      if (!ended) state(error instanceof TypeError ? "the server does not answer" : error.message);
    }
    const pause = more || Math.min(Math.max(700, 20 * took), 20000);
    timer = setTimeout(() => {
      busy = false;
      if (again || more) turn();
    }, pause);
  }

  function open() {
    source?.close();
    if (ended || document.hidden) return;
    const parameters = new URLSearchParams();
    for (const name of names) parameters.append("name", name);
    source = new EventSource(`api/events?${parameters}`);
    source.onmessage = turn;
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) turn(); // refused: the answer says why
      else if (!ended) state("the server does not answer; trying again");
    };
  }

  document.addEventListener("visibilitychange", open);
  open();
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
    document.removeEventListener("visibilitychange", open);
  };
}
