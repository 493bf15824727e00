# ruff: noqa: E501
"""What mail programs of many languages write around a person's words, and words that only look like it."""

from __future__ import annotations

import pytest

from gateway.email.reply_text import Split, split

ANSWER = "Yes, it is."


def same(found: Split, *wanted: str) -> bool:
    return " ".join(found.own.split()) in [" ".join(text.split()) for text in wanted]


ATTRIBUTIONS = [
    "On Tuesday, March 5, 2024 at 09:12:33 AM GMT+1, Ann Lee <ann@example.org> wrote:",
    "On Tuesday, March 5th, 2024 at 09:12, Ann Lee <ann@example.org> wrote:",
    "On Tuesday, March 5th, 2024 at 9:12 AM, Ann Lee wrote:",
    "---- On Tue, 05 Mar 2024 09:12:00 +0100 Ann Lee <ann@example.org> wrote ----",
    " ---- On Tue, 05 Mar 2024 09:12:00 +0100 ann@example.org wrote ---",
    "Вторник, 5 марта 2024, 9:12 +03:00 от Ann Lee <ann@example.org>:",
    '05.03.2024, 09:12, "Ann Lee" <ann@example.org>:',
    "Dnia 5 marca 2024 09:12 Ann Lee <ann@example.org> napisał(a):",
    "Dnia 2024-03-05, o godz. 09:12:00 Ann Lee <ann@example.org> napisał(a):",
    "W dniu wt., 5.03.2024 o 09:12 Ann Lee <ann@example.org> napisał(a):",
    '在 2024-03-05 09:12:00，"Ann Lee" <ann@example.org> 写道：',
    'At 2024-03-05 09:12:00, "Ann Lee" <ann@example.org> wrote:',
    "בתאריך יום ג׳, 5 במרץ 2024 ב-9:12 מאת \u202aAnn Lee\u202c\u200f <\u202aann@example.org\u202c\u200f>:\u202c",
    "\u202bבתאריך יום ג׳, 5 במרץ 2024 ב-9:12 מאת Ann Lee <ann@example.org>:",
    "ב-5 במרץ 2024, בשעה 9:12, Ann Lee <ann@example.org> כתב/ה:",
    "في الثلاثاء، 5 مارس 2024 في 9:12 ص تمت كتابة ما يلي بواسطة \u202aAnn Lee\u202c\u200f <\u202aann@example.org\u202c\u200f>:",
    "في ٥ مارس ٢٠٢٤، الساعة ٩:١٢ ص، كتب Ann Lee <ann@example.org>:",
    "بتاريخ ٥\u200f/٣\u200f/٢٠٢٤، كتب/كتبت Ann Lee <ann@example.org>:",
    "Den 5. mar. 2024 kl. 09.12 skrev Ann Lee <ann@example.org>:",
    "Den tirs. 5. mar. 2024 kl. 09.12 skrev Ann Lee <ann@example.org>:",
    "5. mar. 2024 kl. 09:12 skrev Ann Lee <ann@example.org>:",
    "5 mars 2024 kl. 09:12 skrev Ann Lee <ann@example.org>:",
    "tirsdag 5. mars 2024 skrev Ann Lee <ann@example.org>:",
    "Ann Lee <ann@example.org> kirjoitti 5.3.2024 kello 9.12:",
    "ti 5.3.2024 klo 9.12 Ann Lee (ann@example.org) kirjoitti:",
    "Ann Lee kirjoitti 5.3.2024 klo 9:12:",
    "Op 5 mrt. 2024 om 09:12 heeft Ann Lee <ann@example.org> het volgende geschreven:",
    "Op dinsdag 5 maart 2024 schreef Ann Lee <ann@example.org>:",
    "No dia 05/03/2024, às 09:12, Ann Lee <ann@example.org> escreveu:",
    "Em 5 de mar. de 2024, à(s) 09:12, Ann Lee <ann@example.org> escreveu:",
    "Em terça-feira, 5 de março de 2024 09:12:33 BRT, Ann Lee <ann@example.org> escreveu:",
    "A terça, 5/03/2024, 09:12, Ann Lee <ann@example.org> escreveu:",
    "Ann Lee <ann@example.org> escreveu no dia terça, 5/03/2024 à(s) 09:12:",
    "El 5 mar 2024, a las 9:12, Ann Lee <ann@example.org> escribió:",
    "El martes, 5 de marzo de 2024, 09:12:33 CET, Ann Lee <ann@example.org> escribió:",
    "El mar., 5 de marzo de 2024 9:12 a. m., Ann Lee <ann@example.org> escribió:",
    "Il giorno 5 mar 2024, alle ore 09:12, Ann Lee <ann@example.org> ha scritto:",
    "Il martedì 5 marzo 2024 alle ore 09:12:33 CET, Ann Lee <ann@example.org> ha scritto:",
    "Il mar 5 mar 2024, 09:12 Ann Lee <ann@example.org> ha scritto:",
    "Le 5 mars 2024 à 09:12, Ann Lee <ann@example.org> a écrit :",
    "Le mardi 5 mars 2024 à 09:12:33 UTC+1, Ann Lee <ann@example.org> a écrit :",
    "Le mar. 5 mars 2024, 09 h 12, Ann Lee <ann@example.org> a écrit :",
    "5. 3. 2024 v 9:12, Ann Lee <ann@example.org>:",
    "Wiadomość napisana przez Ann Lee <ann@example.org> w dniu 5 mar 2024, o godz. 09:12:",
    "Ann Lee <ann@example.org> şunları yazdı (5 Mar 2024 09:12):",
    "Ann Lee <ann@example.org>, 5 Mar 2024 Sal, 09:12 tarihinde şunu yazdı:",
    "5 Mar 2024 tarihinde 09:12 saatinde, Ann Lee <ann@example.org> şunları yazdı:",
    "2024. 3. 5. 오전 9:12, Ann Lee <ann@example.org> 작성:",
    "2024년 3월 5일 (화) 09:12, Ann Lee <ann@example.org>님이 작성:",
    "Ann Lee <ann@example.org> 於 2024年3月5日 上午9:12 寫道：",
    "Ann Lee <ann@example.org>于2024年3月5日 周二09:12写道：",
    "2024/03/05 9:12、Ann Lee <ann@example.org>のメール：",
    "2024年3月5日(火) 9:12 Ann Lee <ann@example.org>:",
    "2024年3月5日 9:12、Ann Lee <ann@example.org>のメール:",
    "Am Dienstag, 5. März 2024, 09:12:33 MEZ hat Ann Lee <ann@example.org> Folgendes geschrieben:",
    "Am 5. März 2024 09:12:33 MEZ schrieb Ann Lee <ann@example.org>:",
    "Am 05.03.24 um 09:12 schrieb Ann Lee:",
    "Am 05.03.2024 um 09:12 schrieb ann@example.org:",
    "Ann Lee <ann@example.org> schrieb am Di., 5. März 2024, 09:12:",
    "Ann Lee schrieb am 05.03.2024 um 09:12:",
    "Ann Lee hat am 05.03.2024 09:12 CET geschrieben:",
    "Ann Lee <ann@example.org> hat am 05.03.2024 09:12 geschrieben:",
    "On 2024-03-05 at 09:12 CET, Ann Lee <ann@example.org> wrote...",
    "On Tue, Mar 05, 2024 at 09:12:33AM +0100, Ann Lee wrote:",
    "Quoting Ann Lee <ann@example.org>:",
    "Zitat von Ann Lee <ann@example.org>:",
    "Ann Lee wrote on 05/03/2024 09:12:",
    "Ann Lee <ann@example.org> writes:",
    "2024-03-05 9:12 GMT+01:00 Ann Lee <ann@example.org>:",
    "2024-03-05 9:12 keltezéssel, Ann Lee írta:",
    "Ann Lee <ann@example.org> ezt írta (időpont: 2024. márc. 5., K, 9:12):",
    'On Mar 5, 2024 09:12, "Ann Lee" <ann@example.org> wrote:',
    "On 5 March 2024 09:12:33 CET, Ann Lee <ann@example.org> wrote:",
    "V út 5. 3. 2024 v 9:12 odesílatel Ann Lee <ann@example.org> napsal:",
    "Dne úterý 5. března 2024 9:12:33 CET, Ann Lee napsal(a):",
    "Vào Th 3, 5 thg 3, 2024 vào lúc 09:12 Ann Lee <ann@example.org> đã viết:",
]

HEADER_BLOCKS = {
    "en": [
        "From: Ann Lee <ann@example.org>",
        "Sent: Tuesday, March 5, 2024 9:12 AM",
        "To: Bob <bob@example.org>",
        "Cc: Eve",
        "Subject: RE: The plan",
    ],
    "de": [
        "Von: Ann Lee <ann@example.org>",
        "Gesendet: Dienstag, 5. März 2024 09:12",
        "An: Bob",
        "Cc: Eve",
        "Betreff: AW: Plan",
    ],
    "fr": ["De : Ann Lee <ann@example.org>", "Envoyé : mardi 5 mars 2024 09:12", "À : Bob", "Objet : RE: Le plan"],
    "fr2": ["De: Ann Lee <ann@example.org>", "Date: mar. 5 mars 2024 à 09:12", "Objet: Le plan", "À: Bob"],
    "es": [
        "De: Ann Lee <ann@example.org>",
        "Enviado el: martes, 5 de marzo de 2024 9:12",
        "Para: Bob",
        "Asunto: RE: El plan",
    ],
    "it": ["Da: Ann Lee <ann@example.org>", "Inviato: martedì 5 marzo 2024 09:12", "A: Bob", "Oggetto: R: Il piano"],
    "pt": [
        "De: Ann Lee <ann@example.org>",
        "Enviada em: terça-feira, 5 de março de 2024 09:12",
        "Para: Bob",
        "Assunto: RES: O plano",
    ],
    "nl": [
        "Van: Ann Lee <ann@example.org>",
        "Verzonden: dinsdag 5 maart 2024 09:12",
        "Aan: Bob",
        "Onderwerp: RE: Het plan",
    ],
    "pl": ["Od: Ann Lee <ann@example.org>", "Wysłane: wtorek, 5 marca 2024 09:12", "Do: Bob", "Temat: Odp: Plan"],
    "ru": ["От: Ann Lee <ann@example.org>", "Отправлено: 5 марта 2024 г. 9:12", "Кому: Bob", "Тема: RE: План"],
    "sv": ["Från: Ann Lee <ann@example.org>", "Skickat: den 5 mars 2024 09:12", "Till: Bob", "Ämne: SV: Planen"],
    "da": ["Fra: Ann Lee <ann@example.org>", "Sendt: 5. marts 2024 09:12", "Til: Bob", "Emne: SV: Planen"],
    "no": ["Fra: Ann Lee <ann@example.org>", "Dato: tirsdag 5. mars 2024 09:12", "Til: Bob", "Emne: SV: Planen"],
    "fi": [
        "Lähettäjä: Ann Lee <ann@example.org>",
        "Lähetetty: tiistai 5. maaliskuuta 2024 9.12",
        "Vastaanottaja: Bob",
        "Aihe: VS: Suunnitelma",
    ],
    "cs": ["Od: Ann Lee <ann@example.org>", "Odesláno: úterý 5. března 2024 9:12", "Komu: Bob", "Předmět: RE: Plán"],
    "tr": ["Kimden: Ann Lee <ann@example.org>", "Gönderildi: 5 Mart 2024 Salı 09:12", "Kime: Bob", "Konu: YNT: Plan"],
    "tr2": ["Gönderen: Ann Lee <ann@example.org>", "Gönderilme: 5 Mart 2024 Salı 09:12", "Kime: Bob", "Konu: Plan"],
    "ja": ["差出人: Ann Lee <ann@example.org>", "送信日時: 2024年3月5日 9:12", "宛先: Bob", "件名: RE: 計画"],
    "zh": ["发件人: Ann Lee <ann@example.org>", "发送时间: 2024年3月5日 9:12", "收件人: Bob", "主题: 答复: 计划"],
    "zhtw": ["寄件者: Ann Lee <ann@example.org>", "寄件日期: 2024年3月5日 上午 09:12", "收件者: Bob", "主旨: RE: 計畫"],
    "ko": [
        "보낸 사람: Ann Lee <ann@example.org>",
        "보낸 날짜: 2024년 3월 5일 화요일 오전 9:12",
        "받는 사람: Bob",
        "제목: RE: 계획",
    ],
    "ar": [
        "من: Ann Lee <ann@example.org>",
        "تم الإرسال: الثلاثاء، 5 مارس 2024 9:12 ص",
        "إلى: Bob",
        "الموضوع: رد: الخطة",
    ],
    "ar2": ["من: Ann Lee <ann@example.org>", "أُرسلت: الثلاثاء 5 مارس 2024", "إلى: Bob", "الموضوع: رد: الخطة"],
    "he": ["מאת: Ann Lee <ann@example.org>", "נשלח: יום שלישי 05 מרץ 2024 09:12", "אל: Bob", "נושא: RE: התכנית"],
    "hu": [
        "Feladó: Ann Lee <ann@example.org>",
        "Elküldve: 2024. március 5., kedd 9:12",
        "Címzett: Bob",
        "Tárgy: RE: A terv",
    ],
    "el": ["Από: Ann Lee <ann@example.org>", "Στάλθηκε: Τρίτη, 5 Μαρτίου 2024 9:12", "Προς: Bob", "Θέμα: ΑΠ: Σχέδιο"],
    "ro": [
        "De la: Ann Lee <ann@example.org>",
        "Trimis: marți, 5 martie 2024 09:12",
        "Către: Bob",
        "Subiect: RE: Planul",
    ],
    "uk": ["Від: Ann Lee <ann@example.org>", "Надіслано: 5 березня 2024 р. 9:12", "Кому: Bob", "Тема: RE: План"],
}

SEPARATORS = [
    "---- Original message ----",
    "---- 原始郵件 ----",
    "----- Mail original -----",
    "----- Ursprüngliche E-Mail -----",
    "----- 원본 메일 -----",
    "------- Original Message -------",
    "-------- Alkuperäinen viesti --------",
    "-------- Mensaje original --------",
    "-------- Message original --------",
    "-------- Messaggio originale --------",
    "-------- Opprinnelig melding --------",
    "-------- Original-Nachricht --------",
    "-------- Oryginalna wiadomość --------",
    "-------- Původní zpráva --------",
    "-------- Ursprungligt meddelande --------",
    "-------- Исходное сообщение --------",
    "--------- Original Message ---------",
    "---------- Původní e-mail ----------",
    "------------------ 原始邮件 ------------------",
    "------------------&nbsp;原始邮件&nbsp;------------------",
    "-------Original Message-------",
    "-----Alkuperäinen viesti-----",
    "-----Eredeti üzenet-----",
    "-----Mensagem original-----",
    "-----Mensaje original-----",
    "-----Mesaj original-----",
    "-----Message d'origine-----",
    "-----Messaggio originale-----",
    "-----Oorspronkelijk bericht-----",
    "-----Opprinnelig melding-----",
    "-----Oprindelig meddelelse-----",
    "-----Original Message-----",
    "-----Orijinal Mesaj-----",
    "-----Původní zpráva-----",
    "-----Ursprungliga meddelandet-----",
    "-----Ursprungligt meddelande-----",
    "-----Ursprüngliche Nachricht-----",
    "-----Wiadomość oryginalna-----",
    "-----Αρχικό μήνυμα-----",
    "-----Исходное сообщение-----",
    "-----הודעה מקורית-----",
    "-----رسالة أصلية-----",
    "-----元のメッセージ-----",
    "-----邮件原件-----",
    "-----원본 메시지-----",
    "____ Original message ____",
    "‐‐‐‐‐‐‐ Original Message ‐‐‐‐‐‐‐",
]

FORWARDED = [
    "-------- Forwarded Message --------",
    "-------- Message transféré --------",
    "-------- Přeposlaná zpráva --------",
    "-------- Weitergeleitete Nachricht --------",
    "-------- Перенаправленное сообщение --------",
    "---------- Doorgestuurd bericht ---------",
    "---------- Edelleenlähetetty viesti ---------",
    "---------- Forwarded message ---------",
    "---------- Mensagem encaminhada ---------",
    "---------- Mensaje reenviado ---------",
    "---------- Message transféré ---------",
    "---------- Messaggio inoltrato ---------",
    "---------- Přeposlaná zpráva ---------",
    "---------- Vidarebefordrat meddelande ---------",
    "---------- Videresendt meddelelse ---------",
    "---------- Videresendt melding ---------",
    "---------- Weitergeleitete Nachricht ----------",
    "---------- Wiadomość przekazana dalej ---------",
    "---------- Yönlendirilmiş ileti ---------",
    "---------- Пересылаемое сообщение ---------",
    "---------- הודעה שהועברה ---------",
    "---------- رسالة معاد توجيهها ---------",
    "---------- 転送されたメッセージ ---------",
    "---------- 轉寄郵件 ---------",
    "---------- 转发的邮件 ---------",
    "---------- 전달된 메시지 ---------",
    "Anfang der weitergeleiteten Nachricht:",
    "Begin doorgestuurd bericht:",
    "Begin forwarded message:",
    "Début du message transféré :",
    "Inicio del mensaje reenviado:",
    "Inizio messaggio inoltrato:",
    "Início da mensagem reencaminhada:",
    "Początek przekazywanej wiadomości:",
    "Start på videresendt besked:",
    "Vidarebefordrat brev:",
    "Videresendt melding:",
    "Välitetty viesti:",
    "Začátek přeposlané zprávy:",
    "İletilmiş ileti başlangıcı:",
    "Начало переадресованного сообщения:",
    "תחילת ההודעה שהועברה:",
    "بداية الرسالة المحولة:",
    "开始转发的邮件：",
    "転送されたメッセージ：",
    "전달된 메시지 시작:",
]

DEVICE_LINES = [
    "--\nSent from Gmail Mobile",
    "Android için Outlook'u edinin",
    "Android 版 Outlook を入手",
    "Diese Nachricht wurde von meinem Android-Gerät mit K-9 Mail gesendet.",
    "Enviado con Proton Mail",
    "Enviado desde Outlook para Android",
    "Enviado desde mi iPhone",
    "Enviado do Outlook para Android",
    "Enviado do meu iPhone",
    "Enviat des del meu iPhone",
    "Envoyé de mon iPhone",
    "Envoyé à partir de Outlook pour Android",
    "Från min iPhone",
    "Gesendet mit der GMX Mail App",
    "Gesendet von Outlook für iOS",
    "Get Outlook for Android <https://aka.ms/AAb9ysg>",
    "Hanki Outlook for Android",
    "Inviato da Outlook per Android",
    "Inviato da iPhone",
    "Küldve az iPhone-omról",
    "Lähetetty iPhonesta",
    "Odesláno z iPhonu",
    "Odesláno z mého telefonu",
    "Posláno z mobilu",
    "Sendt fra Outlook til Android",
    "Sendt fra min iPhone",
    "Sent from Mail for Windows",
    "Sent from Outlook for iOS",
    "Sent from Proton Mail Android",
    "Sent from Yahoo Mail on Android",
    "Sent from my BlackBerry 10 smartphone.",
    "Sent from my Galaxy",
    "Sent from my Samsung Galaxy smartphone.",
    "Sent from my iPad",
    "Sent from my iPhone",
    "Sent via the Samsung Galaxy S10",
    "Skickat från Outlook för Android",
    "Skickat från min iPhone",
    "Trimis de pe iPhone",
    "Télécharger Outlook pour iOS<https://aka.ms/o0ukef>",
    "Verstuurd vanaf mijn iPhone",
    "Verzonden vanuit Outlook voor Android",
    "Von meinem iPhone gesendet",
    "Wysłane z iPhone'a",
    "Wysłano z mojego iPhone'a",
    "iPhone'umdan gönderildi",
    "iPhoneから送信",
    "Στάλθηκε από το iPhone μου",
    "Надіслано з iPhone",
    "Отправлено из мобильной Почты Mail",
    "Отправлено с iPhone",
    "נשלח מה-iPhone שלי",
    "أُرسلت من الـ iPhone",
    "مُرسل من الـ iPhone",
    "从 Outlook for Android 获取",
    "从我的 iPhone 发送",
    "傳自我的 iPhone",
    "发自我的iPhone",
    "获取 Outlook for Android",
    "나의 iPhone에서 보냄",
    "내 iPhone에서 보냄",
]

DISCLAIMERS = {
    "en": "This e-mail and any attachments are confidential and intended solely for the addressee. If you are not the intended recipient, please delete this message and notify the sender.",
    "de": "Diese E-Mail enthält vertrauliche und/oder rechtlich geschützte Informationen. Wenn Sie nicht der richtige Adressat sind oder diese E-Mail irrtümlich erhalten haben, informieren Sie bitte sofort den Absender und vernichten Sie diese Mail.",
    "fr": "Ce message et toutes les pièces jointes sont confidentiels et établis à l'intention exclusive de ses destinataires. Si vous avez reçu ce message par erreur, merci d'en avertir immédiatement l'expéditeur et de détruire le message.",
    "es": "Este mensaje y sus adjuntos se dirigen exclusivamente a su destinatario y pueden contener información privilegiada o confidencial. Si no es usted el destinatario indicado, le rogamos que nos lo comunique y proceda a su destrucción.",
    "it": "Le informazioni contenute in questa comunicazione e gli eventuali documenti allegati hanno carattere confidenziale e sono ad uso esclusivo del destinatario. Nel caso questa comunicazione Vi sia pervenuta per errore, Vi informiamo che la sua diffusione è vietata.",
    "pt": "Esta mensagem, incluindo os seus anexos, pode conter informação confidencial e destina-se exclusivamente ao seu destinatário. Se recebeu esta mensagem por engano, por favor informe o remetente e apague-a.",
    "nl": "De informatie verzonden in dit e-mailbericht is vertrouwelijk en uitsluitend bestemd voor de geadresseerde. Indien u niet de geadresseerde bent, verzoeken wij u dit bericht te verwijderen.",
    "pl": "Niniejsza wiadomość zawiera informacje poufne przeznaczone wyłącznie dla adresata. Jeśli nie jesteś adresatem tej wiadomości, prosimy o powiadomienie nadawcy i usunięcie wiadomości.",
    "ru": "Данное сообщение содержит конфиденциальную информацию и предназначено исключительно для адресата. Если вы получили это сообщение по ошибке, пожалуйста, сообщите отправителю и удалите его.",
    "sv": "Detta e-postmeddelande kan innehålla konfidentiell information och är endast avsett för adressaten. Om du har fått detta meddelande av misstag, vänligen meddela avsändaren och radera det.",
    "da": "Denne e-mail kan indeholde fortrolige oplysninger og er kun beregnet til modtageren. Hvis du har modtaget den ved en fejl, bedes du give afsenderen besked og slette den.",
    "no": "Denne e-posten kan inneholde konfidensiell informasjon og er kun ment for mottakeren. Dersom du har mottatt den ved en feil, vennligst gi avsenderen beskjed og slett den.",
    "fi": "Tämä viesti on luottamuksellinen ja tarkoitettu ainoastaan vastaanottajalle. Jos olet saanut viestin vahingossa, ilmoita siitä lähettäjälle ja poista viesti välittömästi koneeltasi.",
    "cs": "Tato zpráva může obsahovat důvěrné informace a je určena výhradně adresátovi. Pokud nejste zamýšleným příjemcem, informujte prosím odesílatele a zprávu smažte.",
    "tr": "Bu e-posta gizli bilgiler içerebilir ve yalnızca alıcısına yöneliktir. Bu mesajı yanlışlıkla aldıysanız lütfen göndereni bilgilendirin ve mesajı siliniz.",
    "ja": "本メールには機密情報が含まれている場合があります。誤って受信された場合は、送信者にご連絡いただき、本メールを直ちに削除してくださいますようお願い申し上げます。無断での転載、複製、開示は固く禁じられております。本メールの内容は法律により保護されています。",
    "zh": "本邮件及其附件含有机密信息，仅限于发送给上面地址中列出的个人或群组。禁止任何其他人以任何形式使用（包括但不限于全部或部分地泄露、复制、或散发）本邮件中的信息。如果您错收了本邮件，请您立即电话或邮件通知发件人并删除本邮件！",
    "ko": "본 메일은 기밀 정보를 포함할 수 있으며 지정된 수신인만을 위한 것입니다. 만약 본 메일이 잘못 전송된 경우 발신인에게 알려 주시고 즉시 삭제하여 주시기 바랍니다. 무단 사용 및 배포, 복사는 법으로 엄격히 금지되어 있습니다. 협조에 감사드립니다.",
    "ar": "هذه الرسالة ومرفقاتها سرية وموجهة حصريًا إلى المرسل إليه. إذا استلمت هذه الرسالة عن طريق الخطأ، يرجى إبلاغ المرسل وحذفها على الفور من جهازك وعدم نسخها أو توزيعها.",
    "he": "הודעה זו והקבצים המצורפים אליה מכילים מידע סודי ומיועדים לנמען בלבד. אם קיבלת הודעה זו בטעות, אנא הודע לשולח ומחק אותה מיידית. כל שימוש, העתקה או הפצה של המידע אסורים.",
}

OWN_WORDS = [
    "Here is my plan:\n\n--- Original plan ---\nbuy milk\n\n--- New plan ---\nbuy bread",
    "Please forward it:\n- one\n- two",
    "From: my desk\nTo: yours, with love",
    "On Monday we wrote: nothing.",
    "Von: hier bis da geht es gut.",
    "Am Montag schrieb ich: nichts.",
    "# Forward message handling\n\ncode follows:\nx = 1",
    "Subject: is missing in the header; why?",
    "Notes\n-----\nfirst\nsecond",
    "a | b\n--|--\n1 | 2",
    "See the original message: it was wrong.",
    "I sent from my office the letter",
    "Le mardi nous avons écrit :\nrien",
]


@pytest.mark.parametrize("line", ATTRIBUTIONS)
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_an_attribution_ends_the_senders_words(line: str, gap: str) -> None:
    for quote in ("> is it done?\n> thanks\n", "\n> is it done?\n"):
        for is_reply in (True, False):
            assert same(split(f"{ANSWER}{gap}{line}\n{quote}", is_reply=is_reply), ANSWER)
    assert same(split(f"{ANSWER}{gap}{line}\nis it done?\nthanks\n", is_reply=True), ANSWER)


@pytest.mark.parametrize("name", HEADER_BLOCKS)
@pytest.mark.parametrize("above", ["", "________________________________\n", "-----Original Message-----\n"])
def test_a_header_block_ends_the_senders_words(name: str, above: str) -> None:
    for lines in (HEADER_BLOCKS[name], ["*" + line.replace(":", ":*", 1) for line in HEADER_BLOCKS[name]]):
        block = "\n".join(lines)
        assert same(split(f"{ANSWER}\n\n{above}{block}\n\nis it done?\n", is_reply=True), ANSWER)


@pytest.mark.parametrize("name", HEADER_BLOCKS)
def test_a_header_block_alone_is_a_mail_passed_on(name: str) -> None:
    found = split("\n".join([*HEADER_BLOCKS[name], "", "is it done?"]), is_reply=False)
    assert (found.own, found.forwarded) == ("", True)
    assert "is it done?" in found.context


@pytest.mark.parametrize("line", SEPARATORS)
def test_a_separator_ends_the_senders_words(line: str) -> None:
    assert same(split(f"{ANSWER}\n\n{line}\nis it done?\nthanks\n", is_reply=True), ANSWER)


@pytest.mark.parametrize("line", FORWARDED)
@pytest.mark.parametrize("words", ["", "Please look."])
def test_a_message_passed_on_is_context(line: str, words: str) -> None:
    text = f"{words}\n\n{line}\nFrom: Ann <ann@example.org>\nDate: Tue\nSubject: x\n\nis it done?\n"
    found = split(text, is_reply=False)
    assert (found.own, found.forwarded) == (words, True)
    assert "is it done?" in found.context


@pytest.mark.parametrize("line", DEVICE_LINES)
def test_a_device_line_is_nobodys_word(line: str) -> None:
    quote = "On Tue, Mar 5, 2024 at 9:12 AM Ann <ann@example.org> wrote:\n> done?\n"
    for below in ("", f"\n{quote}"):
        assert same(split(f"{ANSWER}\n\n{line}\n{below}", is_reply=True), ANSWER)


@pytest.mark.parametrize("name", DISCLAIMERS)
def test_a_disclaimer_goes_and_what_stands_above_it_stays(name: str) -> None:
    notice = DISCLAIMERS[name]
    for rule in ("", "________________________________\n"):
        assert same(
            split(f"{ANSWER}\n\nPlease call me.\n\n{rule}{notice}\n", is_reply=True), f"{ANSWER} Please call me."
        )


@pytest.mark.parametrize("text", OWN_WORDS)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert same(split(text, is_reply=False), text)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (
            "On Tue, Mar 5, 2024 at 9:12 AM Ann <ann@example.org> wrote:\n> First?\n\nYes.\n\n> Second?\n\nNo.\n",
            "Yes. No.",
        ),
        (
            "Hallo,\n\nAm 05.03.24 um 09:12 schrieb Ann Lee:\n> Erste Frage?\nJa.\n> Zweite Frage?\nNein.\n-- \nBob",
            "Hallo, Ja. Nein.",
        ),
        ("Ja.\n\nAm 05.03.24 um 09:12 schrieb Ann Lee:\n> > alt\n> Frage?\n> \n> -- \n> Ann", "Ja."),
        ("Am 05.03.24 um 09:12 schrieb Ann Lee:\n> Frage?\n>\n\nAntwort.\n", "Antwort."),
    ],
)
def test_answers_above_below_and_between(text: str, own: str) -> None:
    assert same(split(text, is_reply=True), own)
