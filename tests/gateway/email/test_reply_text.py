# ruff: noqa: E501
"""Where a mail stops being its sender's words, in the languages and forms that mail programs write."""

from __future__ import annotations

import pytest

from gateway.email.reply_text import split, unflow

ATTRIBUTIONS = [
    "On Tue, Mar 5, 2024 at 9:12 AM Ann Lee <ann@example.org> wrote:",
    "On 5 Mar 2024, at 09:12, Ann Lee <ann@example.org> wrote:",
    "On 3/5/24 09:12, Ann Lee wrote:",
    "Am 05.03.2024 um 09:12 schrieb Ann Lee:",
    "Am Di., 5. März 2024 um 09:12 Uhr schrieb Ann Lee <ann@example.org>:",
    "Le mar. 5 mars 2024 à 09:12, Ann Lee <ann@example.org> a écrit :",
    "Le 05/03/2024 à 09:12, Ann Lee a écrit :",
    "El mar, 5 mar 2024 a las 9:12, Ann Lee (<ann@example.org>) escribió:",
    "El 05/03/2024 a las 9:12, Ann Lee escribió:",
    "Em ter., 5 de mar. de 2024 às 09:12, Ann Lee <ann@example.org> escreveu:",
    "Il giorno mar 5 mar 2024 alle ore 09:12 Ann Lee <ann@example.org> ha scritto:",
    "Il 05/03/2024 09:12, Ann Lee ha scritto:",
    "Op di 5 mrt 2024 om 09:12 schreef Ann Lee <ann@example.org>:",
    "Op 05-03-2024 om 09:12 schreef Ann Lee:",
    "Den tis 5 mars 2024 kl 09:12 skrev Ann Lee <ann@example.org>:",
    "tir. 5. mar. 2024 kl. 09.12 skrev Ann Lee <ann@example.org>:",
    "Den 05.03.2024 09:12, skrev Ann Lee:",
    "ti 5. maalisk. 2024 klo 9.12 Ann Lee (ann@example.org) kirjoitti:",
    "wt., 5 mar 2024 o 09:12 Ann Lee <ann@example.org> napisał(a):",
    "W dniu 05.03.2024 o 09:12, Ann Lee pisze:",
    "út 5. 3. 2024 v 9:12 odesílatel Ann Lee <ann@example.org> napsal:",
    "Dne 5.3.2024 v 9:12 Ann Lee napsal(a):",
    "ut 5. 3. 2024 o 9:12 Ann Lee <ann@example.org> napísal(a):",
    "вт, 5 мар. 2024 г. в 09:12, Ann Lee <ann@example.org>:",
    "05.03.2024 09:12, Ann Lee пишет:",
    "5 марта 2024 г., в 09:12, Ann Lee <ann@example.org> написал(а):",
    "вт, 5 бер. 2024 р. о 09:12 Ann Lee <ann@example.org> пише:",
    "Ann Lee <ann@example.org>, 5 Mar 2024 Sal, 09:12 tarihinde şunu yazdı:",
    "5 Mar 2024 Sal, saat 09:12 tarihinde Ann Lee <ann@example.org> şunu yazdı:",
    "Ann Lee <ann@example.org> 于2024年3月5日周二 09:12写道：",
    "在 2024年3月5日，09:12，Ann Lee <ann@example.org> 写道：",
    "Ann Lee <ann@example.org> 於 2024年3月5日 週二 上午9:12寫道：",
    "2024年3月5日(火) 9:12 Ann Lee <ann@example.org>:",
    "2024/03/05 9:12、Ann Lee <ann@example.org>のメール:",
    "On 2024/03/05 9:12, Ann Lee wrote:",
    "2024년 3월 5일 (화) 오전 9:12, Ann Lee <ann@example.org>님이 작성:",
    "Ann Lee <ann@example.org> ezt írta (időpont: 2024. márc. 5., K, 9:12):",
    "2024. 03. 05. 9:12 keltezéssel, Ann Lee írta:",
    "În mar., 5 mar. 2024 la 09:12, Ann Lee <ann@example.org> a scris:",
    "Στις Τρί 5 Μαρ 2024 στις 9:12 π.μ., ο χρήστης Ann Lee <ann@example.org> έγραψε:",
    "\u202bבתאריך יום ג׳, 5 במרץ 2024 ב-9:12 מאת \u202aAnn Lee\u202c\u200f <\u202aann@example.org\u202c\u200f>:\u202c",
    "في الثلاثاء، 5 مارس 2024 في 9:12 ص تمت كتابة ما يلي بواسطة Ann Lee <ann@example.org>:",
    "на вт, 5.03.2024 г. в 9:12 Ann Lee <ann@example.org> написа:",
    "uto, 5. ožu 2024. u 09:12 Ann Lee <ann@example.org> napisao je:",
    "V tor., 5. mar. 2024 ob 09:12 je oseba Ann Lee <ann@example.org> napisala:",
    "Vào Th 3, 5 thg 3, 2024 vào lúc 09:12 Ann Lee <ann@example.org> đã viết:",
    "Pada tanggal Sel, 5 Mar 2024 pukul 09.12 Ann Lee <ann@example.org> menulis:",
    "เมื่อ อ. 5 มี.ค. 2024 เวลา 09:12 Ann Lee <ann@example.org> เขียนว่า:",
    "Ann Lee wrote on 3/5/2024 9:12 AM:",
    "Ann Lee schrieb am 05.03.2024 um 09:12:",
    "Ann Lee <ann@example.org> writes:",
    "El dt., 5 de març 2024, 9:12, Ann Lee <ann@example.org> va escriure:",
    "Kuupäev T, 5. märts 2024 kell 09:12 kirjutas Ann Lee <ann@example.org>:",
    "2024-03-05, an, 09:12 Ann Lee <ann@example.org> rašė:",
    "otrd., 2024. g. 5. marts, plkst. 09:12 — lietotājs Ann Lee (<ann@example.org>) rakstīja:",
    "---- On Tue, 05 Mar 2024 09:12:00 +0100 Ann Lee <ann@example.org> wrote ---",
    "Quoting Ann Lee <ann@example.org>:",
]

HEADER_BLOCKS = [
    "From: Ann Lee <ann@example.org>|Sent: Tuesday, March 5, 2024 9:12 AM|To: Bob|Subject: Hello",
    "Von: Ann Lee <ann@example.org>|Gesendet: Dienstag, 5. März 2024 09:12|An: Bob|Betreff: Hallo",
    "De : Ann Lee <ann@example.org>|Envoyé : mardi 5 mars 2024 09:12|À : Bob|Objet : Bonjour",
    "De: Ann Lee <ann@example.org>|Enviado el: martes, 5 de marzo de 2024 9:12|Para: Bob|Asunto: Hola",
    "De: Ann Lee <ann@example.org>|Enviada em: terça-feira, 5 de março de 2024 09:12|Para: Bob|Assunto: Olá",
    "Da: Ann Lee <ann@example.org>|Inviato: martedì 5 marzo 2024 09:12|A: Bob|Oggetto: Ciao",
    "Van: Ann Lee <ann@example.org>|Verzonden: dinsdag 5 maart 2024 09:12|Aan: Bob|Onderwerp: Hallo",
    "Från: Ann Lee <ann@example.org>|Skickat: den 5 mars 2024 09:12|Till: Bob|Ämne: Hej",
    "Fra: Ann Lee <ann@example.org>|Sendt: 5. marts 2024 09:12|Til: Bob|Emne: Hej",
    "Lähettäjä: Ann Lee <ann@example.org>|Lähetetty: tiistai 5. maaliskuuta 2024 9.12|Vastaanottaja: Bob|Aihe: Hei",
    "Od: Ann Lee <ann@example.org>|Wysłano: wtorek, 5 marca 2024 09:12|Do: Bob|Temat: Cześć",
    "Od: Ann Lee <ann@example.org>|Odesláno: úterý 5. března 2024 9:12|Komu: Bob|Předmět: Ahoj",
    "От: Ann Lee <ann@example.org>|Отправлено: 5 марта 2024 г. 9:12|Кому: Bob|Тема: Привет",
    "Від: Ann Lee <ann@example.org>|Надіслано: 5 березня 2024 р. 9:12|Кому: Bob|Тема: Привіт",
    "Kimden: Ann Lee <ann@example.org>|Gönderildi: 5 Mart 2024 Salı 09:12|Kime: Bob|Konu: Merhaba",
    "发件人: Ann Lee <ann@example.org>|发送时间: 2024年3月5日 9:12|收件人: Bob|主题: 你好",
    "寄件者: Ann Lee <ann@example.org>|寄件日期: 2024年3月5日 上午 9:12|收件者: Bob|主旨: 你好",
    "差出人: Ann Lee <ann@example.org>|送信日時: 2024年3月5日 9:12|宛先: Bob|件名: こんにちは",
    "보낸 사람: Ann Lee <ann@example.org>|보낸 날짜: 2024년 3월 5일 화요일 오전 9:12|받는 사람: Bob|제목: 안녕",
    "Feladó: Ann Lee <ann@example.org>|Elküldve: 2024. március 5., kedd 9:12|Címzett: Bob|Tárgy: Szia",
    "Από: Ann Lee <ann@example.org>|Στάλθηκε: Τρίτη, 5 Μαρτίου 2024 9:12 πμ|Προς: Bob|Θέμα: Γεια",
    "מאת: Ann Lee <ann@example.org>|נשלח: יום שלישי 5 מרץ 2024 09:12|אל: Bob|נושא: שלום",
    "من: Ann Lee <ann@example.org>|تم الإرسال: الثلاثاء 5 مارس 2024|إلى: Bob|الموضوع: مرحبا",
    "De la: Ann Lee <ann@example.org>|Trimis: marți, 5 martie 2024 09:12|Către: Bob|Subiect: Salut",
]

FORWARD_MARKS = [
    "---------- Forwarded message ---------",
    "---------- Forwarded message ----------",
    "-------- Weitergeleitete Nachricht --------",
    "---------- Message transféré ----------",
    "-------- Message transféré --------",
    "Begin forwarded message:",
    "Anfang der weitergeleiteten Nachricht:",
    "Début du message transféré :",
    "Inicio del mensaje reenviado:",
    "---------- Mensaje reenviado ----------",
    "---------- Mensagem encaminhada ----------",
    "---------- Messaggio inoltrato ---------",
    "Inizio messaggio inoltrato:",
    "---------- Doorgestuurd bericht ---------",
    "-------- Doorgestuurd bericht --------",
    "---------- Vidarebefordrat meddelande ---------",
    "---------- Videresendt meddelelse ---------",
    "---------- Edelleenlähetetty viesti ---------",
    "---------- Forwarded message ---------",
    "---------- Пересылаемое сообщение --------",
    "-------- Пересылаемое сообщение --------",
    "---------- 转发的邮件 ---------",
    "---------- 転送メッセージ ---------",
    "---------- 전달된 메일 ---------",
    "-------- Přeposlaná zpráva --------",
    "-------- Továbbított üzenet --------",
    "---------- İletilmiş ileti ---------",
]

DEVICE_LINES = [
    "Sent from my TI-85",
    "Sent from my cell, please excuse any typos.",
    "Sent from my Windows 8 PC <http://windows.microsoft.com/consumer-preview>",
    "<<sent by galaxy>>",
    "(sent from a phone)",
    "從我的 iPhone 傳送",
    "From My Iphone 6",
    "Envoyé depuis mon iPhone",
    "Von meinem Mobilgerät gesendet",
    "Enviado desde mi iPhone",
    "Enviado do meu iPhone",
    "Inviato da iPhone",
    "Verstuurd vanaf mijn iPhone",
    "Skickat från min iPhone",
    "Sendt fra min iPhone",
    "Lähetetty iPhonesta",
    "Wysłane z iPhone’a",
    "Odesláno z iPhonu",
    "Отправлено с iPhone",
    "iPhoneから送信",
    "从我的 iPhone 发送",
    "나의 iPhone에서 보냄",
    "iPhone'umdan gönderildi",
    "Sent from Outlook for Android",
    "Get Outlook for iOS<https://aka.ms/x>",
    "Sent via Superhuman ( https://sprh.mn/?vip=x )",
    "Envoyé de mon iPad",
    "Télécharger Outlook pour Android",
    "Obtener Outlook para iOS",
    "Holen Sie sich Outlook für Android",
    "Sent with Proton Mail secure email.",
    "Gesendet von Mail für Windows",
]


def own(text: str, *, is_reply: bool = True) -> str:
    return " ".join(split(text, is_reply=is_reply).own.split())


@pytest.mark.parametrize("line", ATTRIBUTIONS)
@pytest.mark.parametrize("quote", ["> Old words\n> more", "Old words\nmore"], ids=["quoted", "unquoted"])
def test_an_attribution_ends_the_senders_words(line: str, quote: str) -> None:
    assert own(f"My answer.\n\n{line}\n\n{quote}\n") == "My answer."
    if "<" in line:
        wrapped = line.replace("<", "<\n", 1)
        assert own(f"My answer.\n\n{wrapped}\n\n{quote}\n") == "My answer."


@pytest.mark.parametrize("block", HEADER_BLOCKS)
@pytest.mark.parametrize(
    "above", ["", "________________________________\n", "-----Original Message-----\n", "Sent from my iPhone\n\n"]
)
def test_a_header_block_ends_the_senders_words(block: str, above: str) -> None:
    plain = block.replace("|", "\n")
    bold = "\n".join("*{}:*{}".format(*line.split(":", 1)) for line in block.split("|"))
    for lines in (plain, bold):
        assert own(f"My answer.\n\n{above}{lines}\n\nOld words\nmore\n") == "My answer."


@pytest.mark.parametrize("mark", FORWARD_MARKS)
def test_a_message_passed_on_is_context(mark: str) -> None:
    found = split(
        f"Please look.\n\n{mark}\nFrom: Ann <ann@example.org>\nDate: x\nSubject: y\n\nOld words\n", is_reply=False
    )
    assert found.own == "Please look."
    assert found.forwarded
    assert "Old words" in found.context


@pytest.mark.parametrize("line", DEVICE_LINES)
def test_a_device_line_is_not_the_senders_word(line: str) -> None:
    assert own(f"Yes.\n\n{line}\n") == "Yes."


@pytest.mark.parametrize(
    "text",
    [
        "On the surface, this.\n\nOn the other hand:\nOn average, it works well.",
        "On Monday we wrote:\n\nthe plan for May.",
        "Mails that come from: john@example.com and from: jane@example.com\n\nThe data comes From: our database.",
        "Formats:\n\n2024-01-15 14:30:25\n15.01.2024 14:30\n\nAll are examples.",
        "First.\n\n____________________________________\n\nSecond part.\n\nBest regards,\nF",
        "Use this:\n\n```\n-- \nOn Tue, Mar 5, 2024 at 9:12 AM Ann <ann@example.org> wrote:\n> x\n```\n\nDone.",
        "Was it Sent from my iPhone?",
        "The file is confidential.",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "...",
        "---",
    ],
)
def test_what_looks_like_a_quote_but_is_not_stays(text: str) -> None:
    assert own(text, is_reply=False) == " ".join(text.split()) or text == "---"


def test_answers_between_the_questions_all_stay_in_order_with_the_exchange_as_context() -> None:
    found = split("I answer below:\n\n> One?\n\nFirst.\n\n> Two?\n\nSecond.\n\n-- \nBob\n", is_reply=True)
    assert " ".join(found.own.split()) == "I answer below: First. Second."
    assert found.context.index("One?") < found.context.index("First.") < found.context.index("Two?")


def test_a_quote_that_lost_its_marks_in_wrapping_is_no_answer() -> None:
    text = "Yes.\n\nOn 5 Mar 2024 at 09:12 Ann wrote:\n\n> a line that is so long that some program wrapped it and then\nlost the mark\n> end\n"
    assert own(text) == "Yes."


def test_code_quoted_by_the_sender_stays_his() -> None:
    text = "Here is the log:\n\n> error 1\n\nBob\n\nOn Dec 16, 2011, at 12:47 PM, Ann\n<ann@example.org>\nwrote:\n\n> fixed?\n"
    assert own(text) == "Here is the log: > error 1 Bob"


def test_flowed_text_is_put_together() -> None:
    assert unflow("a \nb\n> c \n> d\n-- \nBob") == "a b\n> c d\n-- \nBob"
    assert unflow("a \nb", delete_space=True) == "ab"
