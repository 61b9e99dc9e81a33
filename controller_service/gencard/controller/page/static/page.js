// Passkeys, decisions and the keyboard. Texts of the server become text here, never markup.
"use strict";

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const text = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

/** What a form holds, sent to an address; JSON, or null where nothing more is asked for. */
async function post(address, form) {
  const response = await fetch(address, {
    method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin", redirect: "error",
  });
  if (response.status === 204) return null;
  if (response.ok) return response.json();
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const words = [...page.querySelectorAll("[data-error] p")].slice(0, 2).map((one) => one.textContent.trim());
  throw new Error(words.join(" ") || "The request was refused.");
}

async function assertion(options) {
  const allowCredentials = (options.allowCredentials || []).map((one) => ({ ...one, id: bytes(one.id) }));
  const made = await navigator.credentials.get({
    publicKey: { ...options, challenge: bytes(options.challenge), allowCredentials },
  });
  const { clientDataJSON, authenticatorData, signature, userHandle } = made.response;
  return JSON.stringify({
    id: made.id, rawId: text(made.rawId), type: made.type,
    response: {
      clientDataJSON: text(clientDataJSON), authenticatorData: text(authenticatorData), signature: text(signature),
      userHandle: userHandle ? text(userHandle) : null,
    },
  });
}

async function credential(options) {
  const excludeCredentials = (options.excludeCredentials || []).map((one) => ({ ...one, id: bytes(one.id) }));
  const user = { ...options.user, id: bytes(options.user.id) };
  const made = await navigator.credentials.create({
    publicKey: { ...options, challenge: bytes(options.challenge), user, excludeCredentials },
  });
  const { clientDataJSON, attestationObject } = made.response;
  return JSON.stringify({
    id: made.id, rawId: text(made.rawId), type: made.type,
    response: { clientDataJSON: text(clientDataJSON), attestationObject: text(attestationObject) },
  });
}

function hidden(form, name) {
  let input = form.querySelector(`input[name="${name}"]`);
  if (!input) {
    input = document.createElement("input");
    input.type = "hidden";
    input.name = name;
    form.append(input);
  }
  return input;
}

const STEPS = {
  async signIn(form) {
    hidden(form, "assertion").value = await assertion(await post("/sign-in/options", form));
  },
  async passkey(form) {
    hidden(form, "link").value = location.hash.slice(1);
    hidden(form, "credential").value = await credential(await post("/passkey/options", form));
  },
  async decide(form) {
    const options = await post("/decide/options", form);
    if (options) hidden(form, "assertion").value = await assertion(options);
  },
};

document.addEventListener("submit", async (event) => {
  const form = event.target;
  const step = Object.keys(STEPS).find((name) => name in form.dataset);
  if (!step) return;
  event.preventDefault();
  const buttons = form.querySelectorAll("button");
  const problem = form.querySelector("[data-problem]");
  buttons.forEach((one) => { one.disabled = true; });
  problem.textContent = "";
  try {
    await STEPS[step](form);
    form.submit();
  } catch (error) {
    problem.textContent = error.name === "NotAllowedError" ? "The passkey was not confirmed." : error.message;
    buttons.forEach((one) => { one.disabled = false; });
  }
});
addEventListener("pageshow", () => document.querySelectorAll("button:disabled").forEach((one) => { one.disabled = false; }));

// A row stays the current one when the list is fetched again.
let current = "";
const rows = () => [...document.querySelectorAll("[data-row]")];
const linkOf = (row) => row.querySelector("a");
function mark(row) {
  rows().forEach((one) => one.classList.toggle("current", one === row));
  if (!row) return;
  current = linkOf(row).getAttribute("href");
  linkOf(row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}
function move(by) {
  const all = rows();
  const place = all.findIndex((row) => row.classList.contains("current"));
  if (all.length) mark(all[Math.min(all.length - 1, Math.max(0, place < 0 ? 0 : place + by))]);
}
document.addEventListener("htmx:afterSwap", () => {
  const row = rows().find((one) => linkOf(one).getAttribute("href") === current);
  if (row) row.classList.add("current");
});

function openForm(key) {
  const details = document.querySelector(`[data-key-form="${CSS.escape(key)}"]`);
  if (!details) return false;
  details.open = true;
  // a remark is optional: the first field that must be filled comes first
  const field = details.querySelector("input:required:not([type=hidden])") ||
    details.querySelector("input:not([type=hidden])") || details.querySelector("button, summary");
  (field || details).scrollIntoView({ block: "nearest" });
  if (field) field.focus();
  return true;
}

const help = () => document.getElementById("help");
let going = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key;
  if (going) {
    going = false;
    const link = document.querySelector(`nav [data-key="${CSS.escape(key)}"]`);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "g") going = true;
  else if (key === "?" && help()) help().showModal();
  else if (key === "/" && document.querySelector("input[type=search]")) document.querySelector("input[type=search]").focus();
  else if (!openForm(key)) return;
  event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (event.target.closest("[data-help]")) help().showModal();
});

// A chosen file becomes the text of a field; a text of the page is saved as a file.
document.addEventListener("change", async (event) => {
  const field = document.getElementById(event.target.dataset.into);
  const file = event.target.files && event.target.files[0];
  if (field && file) field.value = await file.slice(0, 65537).text();
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-save]");
  if (!button) return;
  const link = document.createElement("a");
  const content = document.getElementById(button.dataset.save).textContent;
  link.href = URL.createObjectURL(new Blob([content], { type: "application/json" }));
  link.download = button.dataset.file;
  link.click();
  URL.revokeObjectURL(link.href);
});
