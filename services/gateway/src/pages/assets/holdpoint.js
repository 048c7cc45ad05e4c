// Makes the pages faster; all of them work without it. It posts forms by fetch, replaces parts that the
// server sends by their id, counts deadlines down, and handles a few keys.
"use strict";
(() => {
  const say = (text) => { const box = document.getElementById("say"); if (box && text) box.textContent = text; };
  const parse = (html) => {
    const box = document.createElement("template");
    box.innerHTML = html;
    return box.content.firstElementChild;
  };
  document.documentElement.classList.add("script");

  // --- parts that are replaced by their id ---
  const typed = (root) => [...root.querySelectorAll("input, textarea, select")].filter((field) => {
    if (!field.name || field.type === "hidden" || field.type === "submit") return false;
    if (field.type === "radio" || field.type === "checkbox") return field.checked !== field.defaultChecked;
    if (field.tagName === "SELECT") return [...field.options].some((one) => one.selected !== one.defaultSelected);
    return field.value !== field.defaultValue || "typed" in field.dataset;
  });
  const opened = (root) => [...root.querySelectorAll("details")].map((one) => one.open);
  const formOf = (field) => field.form && field.form.elements.do ? field.form.elements.do.value : "";
  const twin = (root, field) => [...root.querySelectorAll("input, textarea, select")].find((one) =>
    one.name === field.name && formOf(one) === formOf(field) &&
    (!["radio", "checkbox"].includes(field.type) || one.value === field.value));

  // Keeps typed text and opened details. Text without a field in the new part is shown below it.
  const replace = (fresh, keep) => {
    const old = document.getElementById(fresh.id);
    if (!old) return add(fresh);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const lost = [];
    if (keep) {
      for (const field of typed(old)) {
        const other = twin(fresh, field);
        if (!other) { if (field.value.trim() && field.tagName === "TEXTAREA") lost.push(field.value); continue; }
        if (field.type === "radio" || field.type === "checkbox") other.checked = field.checked;
        else {
          other.value = field.value;
          const fold = other.tagName === "TEXTAREA" && other.closest("details");
          if (fold) fold.open = true;
        }
      }
      const before = opened(old);
      const now = [...fresh.querySelectorAll("details")];
      if (before.length === now.length) now.forEach((one, at) => { one.open = one.open || before[at]; });
    }
    old.replaceWith(fresh);
    for (const text of lost) {
      const note = document.createElement("p");
      note.className = "notice bad";
      note.textContent = "Your unsent text: " + text;
      fresh.append(note);
    }
    if (focused) {
      const next = focused.name && twin(fresh, focused);
      (next || (fresh.tabIndex >= -1 ? fresh : document.body)).focus({ preventScroll: true });
    }
    say(fresh.dataset.say);
    tick();
  };
  const add = (fresh) => {
    const cards = document.getElementById("cards");
    if (!cards || !fresh.classList.contains("card")) return;
    cards.prepend(fresh);
    fresh.classList.add("fresh");
    say("New: " + (fresh.dataset.say || ""));
  };
  const arrived = (html) => {
    const fresh = parse(html);
    if (!fresh || !fresh.id) return;
    const old = document.getElementById(fresh.id);
    if (old && old.dataset.key === fresh.dataset.key) return;
    replace(fresh, true);
  };

  // --- forms ---
  const busy = new WeakSet();
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const card = form.closest(".card");
    if (!card || form.method !== "post") return;
    event.preventDefault();
    if (busy.has(form)) return;
    busy.add(form);
    card.setAttribute("aria-busy", "true");
    try {
      const body = new URLSearchParams(new FormData(form, event.submitter));
      const answer = await fetch(form.action, { method: "POST", body, headers: { "x-holdpoint-fragment": "1" } });
      const fresh = answer.redirected ? null : parse(await answer.text());
      if (answer.redirected || !fresh || !fresh.id) { location.href = answer.redirected ? answer.url : "/inbox"; return; }
      const old = document.getElementById(fresh.id);
      if (old) old.focus({ preventScroll: true });
      replace(fresh, false);
      if (source) connect();
      const notice = fresh.querySelector(".notice");
      say(notice ? notice.textContent : fresh.dataset.say);
    } catch (error) {
      card.removeAttribute("aria-busy");
      let note = card.querySelector(".unsent");
      if (!note) { note = document.createElement("p"); note.className = "notice bad unsent"; note.setAttribute("role", "alert"); card.append(note); }
      note.textContent = "Holdpoint cannot be reached. Nothing was sent. Try again.";
    } finally {
      busy.delete(form);
    }
  });
  for (const form of document.querySelectorAll("form[data-auto]"))
    form.addEventListener("change", () => form.requestSubmit());

  // --- live ---
  const link = (text) => { const box = document.getElementById("link"); if (box) box.textContent = text; };
  // A new connection sends all parts. It is opened again after the reply to a form: the old one may have
  // sent newer parts before that reply, and it would not send them again.
  let source = null;
  const connect = () => {
    if (source) source.close();
    const mine = source = new EventSource("/live?page=" + encodeURIComponent(location.pathname + location.search));
    mine.addEventListener("open", () => link("Live"));
    mine.addEventListener("html", (event) => arrived(event.data));
    mine.addEventListener("now", (event) => { now = Number(event.data); tick(); });
    mine.addEventListener("over", () => { mine.close(); location.href = "/login"; });
    mine.addEventListener("error", () => {
      link("Connection lost; reconnecting");
      if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (mine === source) connect(); }, 3000);
    });
  };
  addEventListener("pagehide", () => { if (source) source.close(); });

  // --- remaining time, by the server's clock ---
  const began = Date.now();
  const frozen = document.body.hasAttribute("data-frozen");
  let now = Number(document.body.dataset.now || began);
  const units = [["day", 86400000], ["hour", 3600000], ["minute", 60000], ["second", 1000]];
  const largest = (ms, some) => {
    const parts = [];
    for (const [name, length] of some) {
      const count = Math.floor(ms / length);
      ms -= count * length;
      if (count && parts.length < 2) parts.push(count + " " + name + (count === 1 ? "" : "s"));
    }
    return parts.join(" ");
  };
  const left = (ms) => {
    if (ms < 0) return "now (the deadline has passed)";
    if (ms < 60000) return "in less than a minute";
    return "in " + largest(ms, units.slice(0, 3));
  };
  const length = (ms) => ms >= 1000 ? largest(ms, units) : ms >= 1 ? Math.floor(ms) + " ms" : "none";
  const tick = () => {
    const time = frozen ? now : now + (Date.now() - began);
    for (const one of document.querySelectorAll("time[data-until]")) {
      const text = left(Number(one.dataset.until) - time);
      if (one.textContent !== text) one.textContent = text;
    }
    // Clocks of a run: the counted time, plus the time since rendering for each step or hold that counts.
    for (const one of document.querySelectorAll("[data-counts]")) {
      const text = length(Number(one.dataset.ms) + Number(one.dataset.counts) * Math.max(0, time - Number(one.dataset.at)));
      if (one.textContent !== text) one.textContent = text;
    }
  };

  // --- keys ---
  const cards = () => [...document.querySelectorAll(".card")];
  const go = (step) => {
    const all = cards();
    if (!all.length) return;
    const at = all.findIndex((card) => card.contains(document.activeElement));
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const active = document.activeElement;
    const card = active && active.closest(".card");
    if (active && active.matches("input, textarea, select")) {
      if (event.key === "Escape" && card) card.focus();
      return;
    }
    if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "Enter" && active && active === card) {
      const first = card.querySelector(".controls button, .controls input:not([type=hidden]), .controls textarea, .controls select, .controls summary");
      if (first) { event.preventDefault(); first.focus(); }
    } else if (event.key === "o" && card) card.querySelector("h2 a").click();
    else if (event.key === "?") {
      const keys = document.getElementById("keys");
      if (keys) { keys.open = !keys.open; if (keys.open) { keys.querySelector("summary").focus(); keys.scrollIntoView({ block: "nearest" }); } }
    } else return;
    event.preventDefault();
  });

  tick();
  setInterval(tick, 1000);
  if (document.body.hasAttribute("data-live") && window.EventSource) connect();
})();
