"use strict";
// Pictures beside the message that is being written: chosen, pasted or dropped, where the model sees.
const Attachments = (() => {
  let pictures = [];
  let sees = false;

  // Offers pictures, or no longer.
  function offer(vision) {
    sees = vision;
    byId("attach").hidden = !vision;
  }

  async function add(files) {
    if (!sees) return notice("This model takes text only.");
    notice("");
    for (const file of files) {
      try {
        const url = await Pictures.read(file);
        pictures = [...pictures, url];
        draw();
      } catch (error) {
        notice(error.message);
      }
    }
    byId("text").focus();
  }

  function remove(index) {
    pictures = pictures.filter((_, other) => other !== index);
    draw();
    byId("text").focus();
  }

  function draw() {
    const item = (src, index) =>
      el(
        "li",
        {},
        el("img", { src, alt: `Picture ${index + 1}` }),
        button("×", () => remove(index), { "aria-label": `Remove picture ${index + 1}` }),
      );
    byId("pictures").replaceChildren(...pictures.map(item));
  }

  // The pictures for a message, by their hashes; the next message begins without any.
  function take() {
    const taken = pictures.map(Pictures.keep);
    pictures = [];
    draw();
    return taken;
  }

  function listen() {
    const chosen = byId("attach-file");
    byId("attach").addEventListener("click", () => chosen.click());
    chosen.addEventListener("change", async () => {
      const files = [...chosen.files];
      chosen.value = "";
      await add(files);
    });
    byId("text").addEventListener("paste", (event) => {
      const files = Pictures.among(event.clipboardData);
      // Office programs put a picture of the text beside the text.
      if (!files.length || event.clipboardData.getData("text/plain")) return;
      event.preventDefault();
      add(files);
    });
    listenToDrops();
  }

  // A file that is dropped beside a target would take the page's place.
  function listenToDrops() {
    const files = (event) => event.dataTransfer?.types.includes("Files");
    const mark = (on) => document.body.classList.toggle("dropping", on);
    document.addEventListener("dragover", (event) => {
      if (!files(event)) return;
      event.preventDefault();
      mark(sees);
    });
    document.addEventListener("dragleave", (event) => event.relatedTarget || mark(false));
    document.addEventListener("drop", (event) => {
      mark(false);
      if (!files(event)) return;
      event.preventDefault();
      const dropped = Pictures.among(event.dataTransfer);
      if (dropped.length) add(dropped);
      else notice("Only pictures can be attached.");
    });
  }

  return {
    offer,
    take,
    listen,
    get any() {
      return pictures.length > 0;
    },
  };
})();
